/* commit.h: the commit of the source, of the plugin and the program mlff. */
#ifndef MLFF_COMMIT_H
#define MLFF_COMMIT_H

#ifdef __cplusplus
extern "C" {
#endif

/* 12 hexadecimal digits, then "-dirty" where files differ from the commit; "unknown" for source without git. */
const char *mlff_commit(void);

#ifdef __cplusplus
}
#endif

#endif
