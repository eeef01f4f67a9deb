/* orb.h: an Orb-v2 network in memory, made by orb_load.c, evaluated by orb.c. */
#ifndef MLFF_ARCH_ORB_H
#define MLFF_ARCH_ORB_H

#include "../model/arch.h"

/* Three linear layers with ssp between them, and the norm of the output. */
typedef struct orb_mlp {
  mlff_linear linear[3];
  mlff_orb_norm norm;
} orb_mlp;

/* W0 of the edge network acts on (e, h_s, h_r). Its three blocks of columns are separate GEMMs, so that those of h are
 * computed per node instead of per edge. */
typedef struct orb_layer {
  orb_mlp edge, node;
  mlff_linear from_sender, from_receiver;
  mlff_buf gates;      /* real [2][L]: receive, send */
  double gate_bias[2]; /* the same                   */
} orb_layer;

/* A head on the mean feature of the system: one row, in double on the host. */
typedef struct orb_head {
  int n_in, n_hidden, n_out;
  double *weight[2], *bias[2];
} orb_head;

typedef struct orb_normalizer {
  double mean, scale; /* scale = sqrt(variance) */
} orb_normalizer;

enum { ORB_MAX_WIDTH = 4096 };

typedef struct orb_net {
  mlff_backend *backend;
  int n_features, n_hidden, n_layers, n_readout, n_neighbours, n_basis;
  double spacing, epsilon;
  mlff_buf node_table; /* real [n_elements][L] encoded nodes by species */
  orb_mlp edge_encoder;
  orb_layer *layers;
  mlff_linear force_head[2];
  orb_head energy_head, stress_head;
  orb_normalizer energy, forces, stress;

  /* arrays of a step: see reserve() for their shapes */
  mlff_orb_graph graph;
  mlff_buf h, e, received, sent, from_sender, from_receiver, hidden[2], raw, input, force_out;
  double *sums;            /* [n_features + 7] sums over ranks                        */
  double (*host_force)[3]; /* [host_room] forces of owned atoms                       */
  int64_t host_room;
  mlff_direct direct;
} orb_net;

mlff_status orb_create(const mlff_modelfile *file, mlff_backend *backend, const mlff_species_use *use, void **net,
                       mlff_error *error);
void orb_destroy(void *net);

/* out [n_out] = W1 ssp(W0 x + b0) + b1 */
void orb_head_apply(const orb_head *head, const double *x, double *out);

/* orb_torque.c: adds to each force the field of a rigid rotation q_i x mu about the centroid that cancels the net
 * torque `torque` = sum q_i x f_i. moment [3][3] = sum q_i q_i^T; where it is singular (single atoms, atoms in line)
 * the pseudo-inverse. */
void orb_rotation(const double moment[3][3], const double torque[3], double mu[3]);

#endif
