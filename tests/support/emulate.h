/* emulate.h: the instructions of kernel paths avx512_bf16 and amx on processors without them. */
#ifndef MLFF_TEST_EMULATE_H
#define MLFF_TEST_EMULATE_H

/* From now on this process computes VDPBF16PS, VCVTNE2PS2BF16, LDTILECFG, TILERELEASE, TILELOADD, TILESTORED and
 * TDPBF16PS as Intel's Software Developer's Manual says, where the processor stops at them; any other illegal
 * instruction still ends it. Decoded from their bytes, so that the operands that a compiler has chosen take part. 0
 * where that is not possible: it takes AVX-512 and Linux on x86-64. */
int emulate_bf16(void);

#endif
