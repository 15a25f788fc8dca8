/* SPDX-License-Identifier: Apache-2.0
 * tests/support/tsan_close.c - only in builds with ThreadSanitizer. libuv closes descriptors by
 * syscall(SYS_close), which the sanitizer does not see: when another thread's new descriptor gets
 * the number, it believes that two threads made the same one. Here such a call becomes close(2),
 * which it knows. Can go when libuv closes like everybody else. */
#include <dlfcn.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((visibility("default"), no_sanitize("thread"))) long syscall(long number, ...)
{
    static long (*real)(long number, ...);
    long args[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++)
        args[i] = va_arg(list, long);
    va_end(list);
    if (number == SYS_close)
        return close((int)args[0]);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "syscall");
    return real(number, args[0], args[1], args[2], args[3], args[4], args[5]);
}
