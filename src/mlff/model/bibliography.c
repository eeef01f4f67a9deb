/* bibliography.c: BibTeX of the publications that a model names. */
#include "mlff/mlff.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* find: a part of the text of a citation: DOI, arXiv number or pages. */
static const struct {
  const char *find, *entry;
} KNOWN[] = {
    {"2102.03150",
     "@inproceedings{Schuett2021,\n"
     "  author = {Sch{\\\"u}tt, Kristof T. and Unke, Oliver T. and Gastegger, Michael},\n"
     "  title = {Equivariant message passing for the prediction of tensorial properties and molecular spectra},\n"
     "  booktitle = {Proceedings of the 38th International Conference on Machine Learning},\n"
     "  series = {PMLR}, volume = {139}, pages = {9377--9388}, year = {2021}, eprint = {2102.03150},\n"
     "  archivePrefix = {arXiv}\n}\n"},
    {"PMLR 139", NULL}, /* the same */
    {"10.1039/C6SC05720A",
     "@article{Smith2017,\n"
     "  author = {Smith, J. S. and Isayev, O. and Roitberg, A. E.},\n"
     "  title = {{ANI-1}: an extensible neural network potential with {DFT} accuracy at force field "
     "computational cost},\n"
     "  journal = {Chem. Sci.}, volume = {8}, pages = {3192--3203}, year = {2017},\n"
     "  doi = {10.1039/C6SC05720A}\n}\n"},
    {"Chem. Sci. 8, 3192", NULL},
    {"10.1021/acs.jctc.0c00121",
     "@article{Devereux2020,\n"
     "  author = {Devereux, Christian and Smith, Justin S. and Huddleston, Kate K. and Barros, "
     "Kipton and Zubatyuk, Roman and Isayev, Olexandr and Roitberg, Adrian E.},\n"
     "  title = {Extending the Applicability of the {ANI} Deep Learning Molecular Potential to "
     "Sulfur and Halogens},\n"
     "  journal = {J. Chem. Theory Comput.}, volume = {16}, pages = {4192--4202}, year = {2020},\n"
     "  doi = {10.1021/acs.jctc.0c00121}\n}\n"},
    {"10.1038/s41467-019-10827-4",
     "@article{Smith2019,\n"
     "  author = {Smith, Justin S. and others},\n"
     "  title = {Approaching coupled cluster accuracy with a general-purpose neural network "
     "potential through transfer learning},\n"
     "  journal = {Nat. Commun.}, volume = {10}, pages = {2903}, year = {2019},\n"
     "  doi = {10.1038/s41467-019-10827-4}\n}\n"},
    {"10.1063/1.5023802", "@article{Smith2018,\n"
                          "  author = {Smith, Justin S. and Nebgen, Ben and Lubbers, Nicholas and Isayev, Olexandr and "
                          "Roitberg, Adrian E.},\n"
                          "  title = {Less is more: Sampling chemical space with active learning},\n"
                          "  journal = {J. Chem. Phys.}, volume = {148}, pages = {241733}, year = {2018},\n"
                          "  doi = {10.1063/1.5023802}\n}\n"},
    {"2410.22570", "@misc{Neumann2024,\n"
                   "  author = {Neumann, Mark and others},\n"
                   "  title = {{Orb}: A Fast, Scalable Neural Network Potential},\n"
                   "  year = {2024}, eprint = {2410.22570}, archivePrefix = {arXiv}\n}\n"},
    {"10.1038/s41467-022-29939-5",
     "@article{Batzner2022,\n"
     "  author = {Batzner, Simon and Musaelian, Albert and Sun, Lixin and Geiger, Mario and "
     "Mailoa, Jonathan P. and Kornbluth, Mordechai and Molinari, Nicola and Smidt, Tess E. and "
     "Kozinsky, Boris},\n"
     "  title = {{E(3)}-equivariant graph neural networks for data-efficient and accurate "
     "interatomic potentials},\n"
     "  journal = {Nat. Commun.}, volume = {13}, pages = {2453}, year = {2022},\n"
     "  doi = {10.1038/s41467-022-29939-5}\n}\n"},
    {"2504.16068", "@misc{Tan2025,\n"
                   "  author = {Tan, Chuin Wei and others},\n"
                   "  title = {High-performance training and inference for deep equivariant interatomic potentials},\n"
                   "  year = {2025}, eprint = {2504.16068}, archivePrefix = {arXiv}\n}\n"},
    {"2508.16067", "@misc{Koker2025,\n"
                   "  author = {Koker, Teddy and Kotak, Mit and Smidt, Tess},\n"
                   "  title = {Training a Foundation Model for Materials on a Budget},\n"
                   "  year = {2025}, eprint = {2508.16067}, archivePrefix = {arXiv}\n}\n"},
    {"2601.07742", "@misc{Koker2026,\n"
                   "  author = {Koker, T. and Gangan, A. and Kotak, M. and Marian, J. and Smidt, T.},\n"
                   "  title = {{PFT}: Phonon Fine-tuning for Machine Learned Interatomic Potentials},\n"
                   "  year = {2026}, eprint = {2601.07742}, archivePrefix = {arXiv}\n}\n"},
    {"10.1021/acs.jctc.4c00190",
     "@article{Park2024,\n"
     "  author = {Park, Yutack and Kim, Jaesun and Hwang, Seungwoo and Han, Seungwu},\n"
     "  title = {Scalable Parallel Algorithm for Graph Neural Network Interatomic Potentials in "
     "Molecular Dynamics Simulations},\n"
     "  journal = {J. Chem. Theory Comput.}, volume = {20}, pages = {4857--4868}, year = {2024},\n"
     "  doi = {10.1021/acs.jctc.4c00190}\n}\n"},
    {"2206.07697",
     "@inproceedings{Batatia2022,\n"
     "  author = {Batatia, Ilyes and Kov{\\'a}cs, D{\\'a}vid P{\\'e}ter and Simm, Gregor N. C. and Ortner, "
     "Christoph and Cs{\\'a}nyi, G{\\'a}bor},\n"
     "  title = {{MACE}: Higher Order Equivariant Message Passing Neural Networks for Fast and Accurate Force "
     "Fields},\n"
     "  booktitle = {Advances in Neural Information Processing Systems}, volume = {35}, year = {2022},\n"
     "  eprint = {2206.07697}, archivePrefix = {arXiv}\n}\n"},
    {"2401.00096", "@misc{Batatia2023,\n"
                   "  author = {Batatia, Ilyes and others},\n"
                   "  title = {A foundation model for atomistic materials chemistry},\n"
                   "  year = {2023}, eprint = {2401.00096}, archivePrefix = {arXiv}\n}\n"},
    {"2312.15211",
     "@misc{Kovacs2023off,\n"
     "  author = {Kov{\\'a}cs, D{\\'a}vid P{\\'e}ter and others},\n"
     "  title = {{MACE-OFF}: Short Range Transferable Machine Learning Force Fields for Organic Molecules},\n"
     "  year = {2023}, eprint = {2312.15211}, archivePrefix = {arXiv}\n}\n"},
    {"2510.25380",
     "@misc{Batatia2025,\n"
     "  author = {Batatia, Ilyes and Lin, Chen and Hart, Joseph and Kasoar, Elliott and Elena, Alin M. and Norwood, "
     "Sam Walton and Wolf, Thomas and Cs{\\'a}nyi, G{\\'a}bor},\n"
     "  title = {Cross Learning between Electronic Structure Theories for Unifying Molecular, Surface, and Inorganic "
     "Crystal Foundation Force Fields},\n"
     "  year = {2025}, eprint = {2510.25380}, archivePrefix = {arXiv}\n}\n"},
    {"10.1063/5.0155322",
     "@article{Kovacs2023,\n"
     "  author = {Kov{\\'a}cs, D{\\'a}vid P{\\'e}ter and others},\n"
     "  title = {Evaluation of the {MACE} force field architecture: From medicinal chemistry to materials "
     "science},\n"
     "  journal = {J. Chem. Phys.}, volume = {159}, pages = {044118}, year = {2023},\n"
     "  doi = {10.1063/5.0155322}\n}\n"},
    {"2306.06482",
     "@inproceedings{Simeon2023,\n"
     "  author = {Simeon, Guillem and De Fabritiis, Gianni},\n"
     "  title = {{TensorNet}: Cartesian Tensor Representations for Efficient Learning of Molecular Potentials},\n"
     "  booktitle = {Advances in Neural Information Processing Systems}, volume = {36}, year = {2023},\n"
     "  eprint = {2306.06482}, archivePrefix = {arXiv}\n}\n"},
    {"2503.04070", "@misc{Kaplan2025,\n"
                   "  author = {Kaplan, Aaron D. and others},\n"
                   "  title = {A Foundational Potential Energy Surface Dataset for Materials},\n"
                   "  year = {2025}, eprint = {2503.04070}, archivePrefix = {arXiv}\n}\n"},
    {"10.1038/s41524-025-01742-y",
     "@article{Ko2025,\n"
     "  author = {Ko, Tsz Wai and others},\n"
     "  title = {Materials Graph Library ({MatGL}), an open-source graph deep learning library for "
     "materials science and chemistry},\n"
     "  journal = {npj Comput. Mater.}, volume = {11}, pages = {253}, year = {2025},\n"
     "  doi = {10.1038/s41524-025-01742-y}\n}\n"},
    {"2411.09631",
     "@misc{Xu2024,\n"
     "  author = {Xu, Ke and Liang, Ting and Xu, Nan and Ying, Penghua and Chen, Shunda and Wei, Ning and Xu, "
     "Jianbin and Fan, Zheyong},\n"
     "  title = {{NEP-MB-pol}: A unified machine-learned framework for fast and accurate prediction of water's "
     "thermodynamic and transport properties},\n"
     "  year = {2024}, eprint = {2411.09631}, archivePrefix = {arXiv}\n}\n"},
    {"10.1021/ct400863t",
     "@article{Babin2013,\n"
     "  author = {Babin, Volodymyr and Leforestier, Claude and Paesani, Francesco},\n"
     "  title = {Development of a ``First Principles'' Water Potential with Flexible Monomers: Dimer "
     "Potential Energy Surface, {VRT} Spectrum, and Second Virial Coefficient},\n"
     "  journal = {J. Chem. Theory Comput.}, volume = {9}, pages = {5395--5403}, year = {2013},\n"
     "  doi = {10.1021/ct400863t}\n}\n"},
    {"J. Chem. Theory Comput. 9, 5395", NULL},
};
enum { N_KNOWN = sizeof KNOWN / sizeof *KNOWN };

/* Index of a publication whose entry is KNOWN[index]; lines without one are other names of the line above. */
static int entry_of(int k)
{
  while (!KNOWN[k].entry) k--;
  return k;
}

static char lower(char c)
{
  return (char) (c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

/* Whether a text contains a part; letters of either case are the same, as in a DOI. */
static int holds(const char *text, size_t length, const char *part)
{
  const size_t n = strlen(part);
  for (size_t k = 0; k + n <= length; k++) {
    size_t same = 0;
    while (same < n && lower(text[k + same]) == lower(part[same])) same++;
    if (same == n) return 1;
  }
  return 0;
}

typedef struct buffer {
  char *text;
  size_t size, length; /* length: of the whole text, which may exceed size */
} buffer;

static void put(buffer *out, const char *text, size_t n)
{
  for (size_t k = 0; k < n; k++, out->length++)
    if (out->length + 1 < out->size) out->text[out->length] = text[k];
}

static void put_text(buffer *out, const char *text)
{
  put(out, text, strlen(text));
}

/* A publication that is not known: @misc with its text, and a key made of it (FNV-1a). */
static void put_other(buffer *out, const char *text, size_t length)
{
  char head[64];
  uint32_t hash = 2166136261u;
  for (size_t k = 0; k < length; k++) hash = (hash ^ (unsigned char) text[k]) * 16777619u;
  snprintf(head, sizeof head, "\n@misc{mlff-%08x,\n  note = {", (unsigned) hash);
  put_text(out, head);
  for (size_t k = 0; k < length; k++) {
    if (strchr("&%#_$", text[k])) put(out, "\\", 1);
    put(out, text[k] == '{' ? "(" : text[k] == '}' ? ")" : text + k, 1);
  }
  put_text(out, "}\n}\n");
}

/* The end of the publication at the beginning of a text; they are divided by "; ". */
static size_t one_length(const char *text)
{
  const char *end = strstr(text, "; ");
  return end ? (size_t) (end - text) : strlen(text);
}

/* Whether a publication was among those before it. */
static int is_repeated(const char *all, const char *text, size_t length)
{
  for (const char *other = all; other < text; other += one_length(other) + 2)
    if (one_length(other) == length && !memcmp(other, text, length)) return 1;
  return 0;
}

/* Adds the entries of the publications of a text. */
static void put_entries(buffer *out, const char *all)
{
  int is_written[N_KNOWN] = {0};
  for (const char *text = all; *text;) {
    const size_t length = one_length(text);
    int n_found = 0;
    for (int k = 0; k < N_KNOWN; k++) {
      if (!holds(text, length, KNOWN[k].find)) continue;
      n_found++;
      if (is_written[entry_of(k)]++) continue;
      put_text(out, "\n");
      put_text(out, KNOWN[entry_of(k)].entry);
    }
    const int is_none = length == 0 || (length == 4 && !memcmp(text, "none", 4));
    if (!n_found && !is_none && !is_repeated(all, text, length)) put_other(out, text, length);
    text += length + (text[length] ? 2 : 0);
  }
}

size_t mlff_bibtex(const char *citation, char *text, size_t size)
{
  buffer out = {text, size, 0};
  put_text(&out,
           "@software{mlff,\n  author = {{The mlff developers}},\n  title = {{mlff}: machine-learned force fields in "
           "{LAMMPS}, natively},\n  version = {" MLFF_VERSION "}\n}\n");
  put_entries(&out, citation ? citation : "");
  if (size) text[out.length < size ? out.length : size - 1] = '\0';
  return out.length;
}
