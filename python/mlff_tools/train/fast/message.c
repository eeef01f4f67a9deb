/* message.c: the PaiNN message and its reverse for training on a CPU; compiled on first use by cpu.py with
 * -DF=features.
 *
 * Edges of centre i are row[i] .. row[i+1]-1; edge e has neighbor nbr[e], unit vector u[e] = (x_j - x_i)/r, and a
 * filter W(e) = sum over t < 4 of c[e][t] R[m[e] + t], a combination of consecutive rows of R [rows][width]. The list
 * is full: i is a neighbor of each of its neighbors. width is 3F, or 2F in the first layer, which has no vectors yet
 * (v = NULL).
 *   forward   dq_i = sum_e Wa xa_j;   dv_i = sum_e u (Wb xb_j) + (Wc xc_j) v_j
 * Atoms first .. last-1 are done by one call, so that threads can share the work.
 */
#include <stdint.h>
#include <string.h>

#ifndef F
#error "compile with -DF=number of features"
#endif

typedef struct edges {
  const int64_t *row;
  const int32_t *nbr, *m;
  const float (*u)[3], (*c)[4], (*dc)[4];
} edges;

static inline void filter(const float *restrict rows, int width, const float c[4], float *restrict w)
{
  const float *r0 = rows, *r1 = rows + width, *r2 = rows + 2 * width, *r3 = rows + 3 * width;
  for (int k = 0; k < width; k++) w[k] = c[0] * r0[k] + c[1] * r1[k] + c[2] * r2[k] + c[3] * r3[k];
}

void message_forward(const edges *g, int64_t first, int64_t last, int width, const float *restrict R,
                     const float *restrict x, const float *restrict v, float *restrict dq, float *restrict dv)
{
  float w[3 * F];
  for (int64_t i = first; i < last; i++) {
    float *q = dq + i * F, *out = dv + i * 3 * F;
    memset(q, 0, F * sizeof *q);
    memset(out, 0, 3 * F * sizeof *out);
    for (int64_t e = g->row[i]; e < g->row[i + 1]; e++) {
      const float *xj = x + (int64_t) g->nbr[e] * width, u0 = g->u[e][0], u1 = g->u[e][1], u2 = g->u[e][2];
      filter(R + (int64_t) g->m[e] * width, width, g->c[e], w);
      for (int k = 0; k < F; k++) {
        const float b = w[F + k] * xj[F + k];
        q[k] += w[k] * xj[k];
        out[k] += u0 * b;
        out[F + k] += u1 * b;
        out[2 * F + k] += u2 * b;
      }
      if (!v) continue;
      const float *vj = v + (int64_t) g->nbr[e] * 3 * F;
      for (int k = 0; k < F; k++) {
        const float c = w[2 * F + k] * xj[2 * F + k];
        out[k] += c * vj[k];
        out[F + k] += c * vj[F + k];
        out[2 * F + k] += c * vj[2 * F + k];
      }
    }
  }
}

/* Reverse, from the sender's side: atom j owns x_j and v_j and reads the adjoints gq_i, gv_i of its neighbors; its
 * list's edge j -> i is the message i <- j seen from the other end, so the unit vector has the other sign.
 *   gx_j, gv_j (from messages; =);  gR += (when not NULL);  grad[e] = dE/d(vector of list edge e) (when not NULL) */
void message_backward(const edges *g, int64_t first, int64_t last, int width, const float *restrict R,
                      const float *restrict x, const float *restrict v, const float *restrict gq,
                      const float *restrict gv, const float *restrict inverse_r, float *restrict gx,
                      float *restrict gv_in, float *restrict gR, float (*restrict grad)[3])
{
  float w[3 * F], slope[3 * F], gw[3 * F];
  for (int64_t j = first; j < last; j++) {
    const float *xj = x + j * width, *vj = v ? v + j * 3 * F : NULL;
    float *gxj = gx + j * width, *gvj = v ? gv_in + j * 3 * F : NULL;
    memset(gxj, 0, (size_t) width * sizeof *gxj);
    if (v) memset(gvj, 0, 3 * F * sizeof *gvj);
    for (int64_t e = g->row[j]; e < g->row[j + 1]; e++) {
      const float *gqi = gq + (int64_t) g->nbr[e] * F, *gvi = gv + (int64_t) g->nbr[e] * 3 * F;
      const float u0 = -g->u[e][0], u1 = -g->u[e][1], u2 = -g->u[e][2];
      float s0 = 0, s1 = 0, s2 = 0, sd = 0;
      filter(R + (int64_t) g->m[e] * width, width, g->c[e], w);
      for (int k = 0; k < F; k++) {
        const float a = gqi[k], b = u0 * gvi[k] + u1 * gvi[F + k] + u2 * gvi[2 * F + k], wx = w[F + k] * xj[F + k];
        gxj[k] += a * w[k];
        gxj[F + k] += b * w[F + k];
        gw[k] = a * xj[k];
        gw[F + k] = b * xj[F + k];
        s0 += gvi[k] * wx;
        s1 += gvi[F + k] * wx;
        s2 += gvi[2 * F + k] * wx;
      }
      if (v) {
        for (int k = 0; k < F; k++) {
          const float c = gvi[k] * vj[k] + gvi[F + k] * vj[F + k] + gvi[2 * F + k] * vj[2 * F + k];
          const float wx = w[2 * F + k] * xj[2 * F + k];
          gxj[2 * F + k] += c * w[2 * F + k];
          gw[2 * F + k] = c * xj[2 * F + k];
          gvj[k] += gvi[k] * wx;
          gvj[F + k] += gvi[F + k] * wx;
          gvj[2 * F + k] += gvi[2 * F + k] * wx;
        }
      }
      if (gR) {
        float *r0 = gR + (int64_t) g->m[e] * width, *r1 = r0 + width, *r2 = r1 + width, *r3 = r2 + width;
        const float *c = g->c[e];
        for (int k = 0; k < width; k++) {
          r0[k] += c[0] * gw[k];
          r1[k] += c[1] * gw[k];
          r2[k] += c[2] * gw[k];
          r3[k] += c[3] * gw[k];
        }
      }
      if (!grad) continue;
      filter(R + (int64_t) g->m[e] * width, width, g->dc[e], slope);
      for (int k = 0; k < width; k++) sd += gw[k] * slope[k];
      /* by the message's own vector: sd u + (s - u (u.s)) / r; by the list's vector: the opposite */
      const float us = u0 * s0 + u1 * s1 + u2 * s2, ir = inverse_r[e];
      grad[e][0] = -(sd * u0 + (s0 - u0 * us) * ir);
      grad[e][1] = -(sd * u1 + (s1 - u1 * us) * ir);
      grad[e][2] = -(sd * u2 + (s2 - u2 * us) * ir);
    }
  }
}
