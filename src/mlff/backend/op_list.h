/* op_list.h: every operation of a backend, one row each. Generated from it: the table (ops.h), the declarations and
 * tables of the CPU (cpu/cpu.h, cpu/table.c) and of GPUs (cuda/ops_cuda.h, cuda/table.cu), the operations of forecasts
 * (tables.c) and the timed ones (model/spans.c). It is included several times and has no guard. The includer defines
 * OP, and optionally the others:
 *
 *   OP(name, returns, parameters, arguments, span, forecast, bodies)
 *   OP_SIMPLE(name, type, span)   one argument `const type *args`, cannot fail: SKIPPED, BOTH
 *   OP_HOST(as OP)                independent of the element type
 *   OP_SIZE(name, cpu, gpu)       no operation: a size or preference of a backend
 *
 *   name      in mlff_ops. Bodies are MLFF_CPU(name_cpu) in cpu/ and MLFF_CUDA(name_cuda) in ../../cuda/, of OP_HOST
 *             name_cpu and name_cuda; the contract is in the header of the family, ops.h, ops_painn.h ...
 *   span      MLFF_SPAN_* of its time; NONE; PRODUCT, PRODUCTS: DENSE or DENSE_BACKWARD, by the matrix; HALO: EXCHANGE,
 *             unless there is no halo; HALO_PART: the same, as part of a call that HALO counts
 *   forecast  of memory (mlff_backend.forecast), on the CPU. RESERVES: mlff_reserve_NAME of reserve.h instead; SKIPPED:
 *             reserves nothing and does nothing; RUNS: is never called, or asks for memory only
 *   bodies    BOTH; GPU_ONLY: NULL on the CPU; FUSED: GPU_ONLY, fuses several operations into one kernel. NULL while
 *             these are timed, and with mlff_options.fuse "no"
 */
#define OP_SIMPLE(name, type, span) \
  OP(name, void, (mlff_backend * backend, const type *args), (backend, args), span, SKIPPED, BOTH)
#ifndef OP_HOST
#define OP_HOST OP
#endif
#ifndef OP_SIZE
#define OP_SIZE(name, cpu, gpu)
#endif

/* ---- all architectures: ops.h ------------------------------------------------------------------------------------ */

OP_HOST(alloc, void *, (mlff_backend * backend, size_t bytes), (backend, bytes), NONE, RUNS, BOTH)
OP_HOST(release, void, (mlff_backend * backend, void *data), (backend, data), NONE, RUNS, BOTH)
OP_HOST(memory, mlff_status, (mlff_backend * backend, size_t *free_bytes, size_t *total_bytes, mlff_error *error),
        (backend, free_bytes, total_bytes, error), NONE, RUNS, GPU_ONLY)
OP_HOST(upload, mlff_status, (mlff_backend * backend, void *dst, const void *src, size_t bytes, mlff_error *error),
        (backend, dst, src, bytes, error), COPY, SKIPPED, BOTH)
OP_HOST(download, mlff_status, (mlff_backend * backend, void *dst, const void *src, size_t bytes, mlff_error *error),
        (backend, dst, src, bytes, error), COPY, SKIPPED, BOTH)
OP_HOST(zero, void, (mlff_backend * backend, void *data, size_t bytes), (backend, data, bytes), NONE, SKIPPED, BOTH)
OP_HOST(upload_reals, mlff_status, (mlff_backend * backend, void *dst, const double *src, int64_t n, mlff_error *error),
        (backend, dst, src, n, error), COPY, SKIPPED, BOTH)
OP_HOST(download_reals, mlff_status,
        (mlff_backend * backend, double *dst, const void *src, int64_t n, mlff_error *error),
        (backend, dst, src, n, error), COPY, SKIPPED, BOTH)
OP_HOST(exchange_begin, mlff_status, (mlff_backend * backend, const mlff_exchange_args *args, mlff_error *error),
        (backend, args, error), HALO_PART, SKIPPED, BOTH)
OP_HOST(exchange_progress, void, (mlff_backend * backend, const mlff_exchange_args *args), (backend, args), HALO_PART,
        SKIPPED, BOTH)
OP_HOST(exchange_finish, mlff_status, (mlff_backend * backend, const mlff_exchange_args *args, mlff_error *error),
        (backend, args, error), HALO, SKIPPED, BOTH)
OP_HOST(exchange_sum, mlff_status,
        (mlff_backend * backend, const mlff_halo *halo, void *rows, int64_t n_nodes, int64_t width, mlff_error *error),
        (backend, halo, rows, n_nodes, width, error), EXCHANGE, SKIPPED, BOTH)
OP_HOST(owns_graph, mlff_status, (mlff_backend * backend, const mlff_graph *graph, int is_new, mlff_error *error),
        (backend, graph, is_new, error), NONE, RUNS, GPU_ONLY)
OP(linear_pack, mlff_status,
   (mlff_backend * backend, mlff_linear *linear, const double *weight, const double *bias, int n_out, int n_in,
    int transpose, mlff_error *error),
   (backend, linear, weight, bias, n_out, n_in, transpose, error), NONE, RUNS, BOTH)
OP(linear, void, (mlff_backend * backend, const mlff_linear *linear, const mlff_linear_args *args),
   (backend, linear, args), PRODUCT, SKIPPED, BOTH)
OP(linear_many, void, (mlff_backend * backend, int n, const mlff_linear *const *linears, const mlff_linear_args *args),
   (backend, n, linears, args), PRODUCTS, SKIPPED, BOTH)
OP(atoms_begin, void, (mlff_backend * backend, int64_t n_atoms), (backend, n_atoms), NONE, RUNS, FUSED)
OP(atoms_end, void, (mlff_backend * backend), (backend), NONE, RUNS, FUSED)
OP(edges, mlff_status,
   (mlff_backend * backend, const mlff_graph *graph, double cutoff, mlff_edges *edges, mlff_error *error),
   (backend, graph, cutoff, edges, error), EDGES, RESERVES, BOTH)
OP_SIMPLE(clamp, mlff_clamp_args, EDGES)
OP_SIMPLE(repulsion, mlff_repulsion_args, FORCES)
OP_SIMPLE(last_features, mlff_last_features_args, DENSE)
OP_SIMPLE(weight_rows, mlff_weight_rows_args, DENSE_BACKWARD)
OP(forces, mlff_status, (mlff_backend * backend, const mlff_forces_args *args, mlff_error *error),
   (backend, args, error), FORCES, SKIPPED, BOTH)

/* ---- PaiNN: ops_painn.h ------------------------------------------------------------------------------------------ */

/* 48: 8 tiles of the GEMM; the scratch of a block stays in the second-level cache. 98304: larger blocks are not faster,
 * and need more memory (12 kB per atom with 64 features) */
OP_SIZE(painn_block, 48, 98304)
/* GPUs capture a step, whose order of launches must not depend on the list */
OP_SIZE(painn_depth_first, 1, 0)
OP(edge_lines, mlff_status,
   (mlff_backend * backend, const mlff_painn_basis *basis, const mlff_edges *edges, mlff_painn_radial *radial,
    mlff_error *error),
   (backend, basis, edges, radial, error), DESCRIPTOR, RESERVES, BOTH)
OP(painn_radial, mlff_status,
   (mlff_backend * backend, const mlff_painn_basis *basis, const mlff_edges *edges, mlff_painn_radial *radial,
    mlff_error *error),
   (backend, basis, edges, radial, error), DESCRIPTOR, RESERVES, BOTH)
OP_SIMPLE(painn_moments, mlff_painn_moments_args, MESSAGE)
OP_SIMPLE(painn_moments_backward, mlff_painn_moments_args, MESSAGE_BACKWARD)
OP_SIMPLE(painn_message, mlff_painn_message_args, MESSAGE)
OP_SIMPLE(painn_message_backward, mlff_painn_message_args, MESSAGE_BACKWARD)
OP_SIMPLE(painn_mix_norm, mlff_painn_mix_args, DENSE)
OP_SIMPLE(painn_mix_update, mlff_painn_mix_args, DENSE)
OP_SIMPLE(painn_mix_backward_gates, mlff_painn_mix_args, DENSE_BACKWARD)
OP_SIMPLE(painn_mix_backward_vectors, mlff_painn_mix_args, DENSE_BACKWARD)
OP_SIMPLE(painn_mix_backward_sum, mlff_painn_mix_args, DENSE_BACKWARD)
OP_SIMPLE(painn_readout, mlff_painn_readout_args, DENSE)

/* ---- ANI: ops_ani.h ---------------------------------------------------------------------------------------------- */

/* 132: 22 tiles of the GEMM; activations stay in the second-level cache. 16384: fills a GPU; 200 MB for the largest
 * published networks */
OP_SIZE(ani_block, 132, 16384)
OP_SIZE(ani_members, 1, INT64_MAX)
OP(aev_setup, mlff_status,
   (mlff_backend * backend, mlff_aev *aev, const mlff_aev_constants *constants, int n_species, const int *use,
    mlff_error *error),
   (backend, aev, constants, n_species, use, error), NONE, RUNS, BOTH)
OP(aev_forward, mlff_status, (mlff_backend * backend, mlff_aev *aev, const mlff_aev_args *args, mlff_error *error),
   (backend, aev, args, error), DESCRIPTOR, SKIPPED, BOTH)
OP(aev_backward, mlff_status, (mlff_backend * backend, mlff_aev *aev, const mlff_aev_args *args, mlff_error *error),
   (backend, aev, args, error), DESCRIPTOR_BACKWARD, SKIPPED, BOTH)
OP(ani_readout, void, (mlff_backend * backend, int n, const mlff_ani_readout_args *args), (backend, n, args), DENSE,
   SKIPPED, BOTH)
OP_SIMPLE(ani_collect, mlff_ani_collect_args, DENSE)
OP(ani_networks_setup, mlff_status,
   (mlff_backend * backend, mlff_ani_networks *networks, int n, const mlff_ani_network *network, mlff_error *error),
   (backend, networks, n, network, error), NONE, RUNS, FUSED)
OP(ani_networks, int, (mlff_backend * backend, const mlff_ani_networks *networks, const mlff_ani_networks_args *args),
   (backend, networks, args), NONE, RUNS, FUSED)

/* ---- Orb: ops_orb.h ---------------------------------------------------------------------------------------------- */

/* 160: two hidden arrays take 0.6 MB for H = 512 floats. 32768: fills a GPU; 270 MB per block for H = 512 floats */
OP_SIZE(orb_block, 160, 32768)
OP(orb_graph, mlff_status,
   (mlff_backend * backend, const mlff_graph *graph, const mlff_edges *edges, int n_neighbours, mlff_orb_graph *out,
    mlff_error *error),
   (backend, graph, edges, n_neighbours, out, error), EDGES, RESERVES, BOTH)
OP_SIMPLE(orb_features, mlff_orb_features_args, DESCRIPTOR)
OP_SIMPLE(orb_gather, mlff_orb_gather_args, MESSAGE)
OP_SIMPLE(orb_norm, mlff_orb_norm_args, DENSE)
OP_SIMPLE(orb_message, mlff_orb_message_args, MESSAGE)
OP_SIMPLE(orb_concat, mlff_orb_concat_args, DENSE)
OP_SIMPLE(orb_embed, mlff_orb_embed_args, DENSE)
OP(orb_sum, mlff_status,
   (mlff_backend * backend, const void *x, int64_t n, int64_t width, const int32_t *species, double *sum,
    mlff_error *error),
   (backend, x, n, width, species, sum, error), NONE, RUNS, BOTH)

/* ---- NequIP: ops_nequip.h ---------------------------------------------------------------------------------------- */

/* 24: 4 tiles of the GEMM; sums of a block, 22 KB per atom, stay in the second-level cache */
OP_SIZE(nequip_block, 24, INT64_MAX)
/* 131072: 1500 atoms or more, which fill a GPU; 370 MB in float for the largest published networks */
OP_SIZE(nequip_messages, 0, 131072)
OP_SIMPLE(nequip_terms, mlff_nequip_terms_args, DESCRIPTOR)
OP_SIMPLE(nequip_first, mlff_nequip_first_args, MESSAGE)
OP_SIMPLE(nequip_first_backward, mlff_nequip_first_args, MESSAGE_BACKWARD)
OP_SIMPLE(nequip_message, mlff_nequip_message_args, MESSAGE)
OP_SIMPLE(nequip_message_backward, mlff_nequip_message_args, MESSAGE_BACKWARD)
OP_SIMPLE(nequip_gate, mlff_nequip_gate_args, DENSE)
OP_SIMPLE(nequip_gate_backward, mlff_nequip_gate_args, DENSE_BACKWARD)
OP_SIMPLE(nequip_readout, mlff_nequip_readout_args, DENSE)

/* ---- MACE: ops_mace.h -------------------------------------------------------------------------------------------- */

OP_SIMPLE(mace_expand, mlff_mace_select_args, DENSE)
OP_SIMPLE(mace_pick, mlff_mace_select_args, DENSE_BACKWARD)
OP_SIMPLE(mace_start, mlff_mace_start_args, DENSE)
OP_SIMPLE(mace_product, mlff_mace_product_args, DENSE)
OP_SIMPLE(mace_product_backward, mlff_mace_product_args, DENSE_BACKWARD)
OP_SIMPLE(mace_divide, mlff_mace_divide_args, DENSE)
OP_SIMPLE(mace_readout, mlff_mace_readout_args, DENSE)

/* ---- TensorNet: ops_tensornet.h ---------------------------------------------------------------------------------- */

/* 48: 8 tiles of the GEMM; a block's rows of features stay in the second-level cache */
OP_SIZE(tensornet_block, 48, INT64_MAX)
OP_SIMPLE(tensornet_terms, mlff_tensornet_terms_args, DESCRIPTOR)
OP_SIMPLE(tensornet_moments, mlff_tensornet_moments_args, MESSAGE)
OP_SIMPLE(tensornet_moments_backward, mlff_tensornet_moments_args, MESSAGE_BACKWARD)
OP_SIMPLE(tensornet_message, mlff_tensornet_message_args, MESSAGE)
OP_SIMPLE(tensornet_message_backward, mlff_tensornet_message_args, MESSAGE_BACKWARD)
OP_SIMPLE(tensornet_local, mlff_tensornet_message_args, MESSAGE)
OP_SIMPLE(tensornet_local_backward, mlff_tensornet_message_args, MESSAGE_BACKWARD)
OP_SIMPLE(tensornet_pair, mlff_tensornet_pair_args, DENSE)
OP_SIMPLE(tensornet_pair_backward, mlff_tensornet_pair_args, DENSE_BACKWARD)
OP_SIMPLE(tensornet_norm, mlff_tensornet_norm_args, DENSE)
OP_SIMPLE(tensornet_norm_backward, mlff_tensornet_norm_args, DENSE_BACKWARD)
OP_SIMPLE(tensornet_activate, mlff_tensornet_activate_args, DENSE)
OP_SIMPLE(tensornet_gate, mlff_tensornet_gate_args, DENSE)
OP_SIMPLE(tensornet_gate_backward, mlff_tensornet_gate_args, DENSE_BACKWARD)
OP_SIMPLE(tensornet_product, mlff_tensornet_product_args, DENSE)
OP_SIMPLE(tensornet_product_backward, mlff_tensornet_product_args, DENSE_BACKWARD)
OP_SIMPLE(tensornet_update, mlff_tensornet_update_args, DENSE)
OP_SIMPLE(tensornet_update_backward, mlff_tensornet_update_args, DENSE_BACKWARD)
OP_SIMPLE(tensornet_readout, mlff_tensornet_readout_args, DENSE)

#undef OP
#undef OP_SIMPLE
#undef OP_HOST
#undef OP_SIZE
