/* LD_PRELOAD: a disk that fails or is slow. While the file named by FAULTY_DISK is there, writes and syncs of files
   below FAULTY_FOLDER fail with EIO ("eio") or take half a second ("slow"), as the first letter of that file says. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static int faulty(int fd) {
    const char *switch_file = getenv("FAULTY_DISK"), *folder = getenv("FAULTY_FOLDER");
    char link[64], path[4096], how = 0;
    int saved = errno, file;
    ssize_t length;
    if (!switch_file || !folder || (file = open(switch_file, O_RDONLY | O_CLOEXEC)) < 0) { errno = saved; return 0; }
    if (read(file, &how, 1) != 1) how = 0;
    close(file);
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, path, sizeof path - 1);
    errno = saved;
    if (length < 0) return 0;
    path[length] = 0;
    if (strncmp(path, folder, strlen(folder))) return 0;
    if (how == 's') { struct timespec half = {0, 500000000}; nanosleep(&half, NULL); return 0; }
    return how == 'e';
}

#define REAL(name) __typeof__(&name) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
#define FAIL do { errno = EIO; return -1; } while (0)

ssize_t write(int fd, const void *data, size_t count) { REAL(write); if (faulty(fd)) FAIL; return real(fd, data, count); }
ssize_t writev(int fd, const struct iovec *parts, int count) { REAL(writev); if (faulty(fd)) FAIL; return real(fd, parts, count); }
ssize_t pwrite64(int fd, const void *data, size_t count, off64_t at) { REAL(pwrite64); if (faulty(fd)) FAIL; return real(fd, data, count, at); }
int fsync(int fd) { REAL(fsync); if (faulty(fd)) FAIL; return real(fd); }
int fdatasync(int fd) { REAL(fdatasync); if (faulty(fd)) FAIL; return real(fd); }
