/* SPDX-License-Identifier: Apache-2.0
 * src/driver/ssh_script.c - see ssh_script.h. The texts are POSIX sh, for dash, bash and busybox
 * alike; each is one line, so statements end with ";". */
#include "base/hex.h"
#include "driver/ssh_script.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

struct berth_ssh_mark berth_ssh_mark_new(void)
{
    struct berth_ssh_mark mark = {{'\036'}};
    unsigned char bytes[16] = {0};
    /* Guards against chance, not against the far end, which sees it anyway. */
    (void)getrandom(bytes, sizeof bytes, 0);
    berth_hex_write(bytes, sizeof bytes, mark.text + 1);
    return mark;
}

void berth_ssh_line_clear(struct berth_ssh_line *line)
{
    if (line->buf.data)
        explicit_bzero(line->buf.data, line->buf.len);
    berth_buf_clear(&line->buf);
}

/* In single quotes; a newline, which would end the line, is the value of $n. */
static void quote(struct berth_ssh_line *line, const char *text)
{
    struct berth_buf *buf = &line->buf;
    line->has_newline |= strchr(text, '\n') != NULL;
    berth_buf_puts(buf, "'");
    while (*text) {
        size_t plain = strcspn(text, "'\n");
        berth_buf_append(buf, text, plain);
        text += plain;
        if (*text)
            berth_buf_puts(buf, *text == '\'' ? "'\\''" : "'\"$n\"'");
        text += *text != '\0';
    }
    berth_buf_puts(buf, "'");
}

void berth_ssh_line_set(struct berth_ssh_line *line, const char *name, const char *value)
{
    berth_buf_puts(&line->buf, name);
    berth_buf_puts(&line->buf, "=");
    quote(line, value);
    berth_buf_puts(&line->buf, "; ");
}

/* By one export: its words are read before it sets anything, so a variable may be called n. */
void berth_ssh_line_env(struct berth_ssh_line *line, const char *const *env)
{
    berth_buf_puts(&line->buf, "z() { export");
    for (; *env; env++) {
        const char *equals = strchr(*env, '=');
        berth_buf_puts(&line->buf, " ");
        berth_buf_append(&line->buf, *env, (size_t)(equals + 1 - *env));
        quote(line, equals + 1);
    }
    berth_buf_puts(&line->buf, "; }; ");
}

void berth_ssh_line_args(struct berth_ssh_line *line, const char *const *argv)
{
    berth_buf_puts(&line->buf, "set --");
    for (; *argv; argv++) {
        berth_buf_puts(&line->buf, " ");
        quote(line, *argv);
    }
    berth_buf_puts(&line->buf, "; ");
}

/* $n costs a process there, so it is set only where it is used: before all else. */
int berth_ssh_line_end(struct berth_ssh_line *line, const char *script, struct berth_error *err)
{
    static const char newline[] = "n=$(printf '\\n_'); n=${n%_}; ";
    berth_buf_puts(&line->buf, script);
    berth_buf_puts(&line->buf, "\n");
    size_t len = line->buf.len, more = line->has_newline ? sizeof newline - 1 : 0;
    berth_buf_append(&line->buf, newline, more);
    int rc = berth_buf_check(&line->buf, "The command", err);
    if (rc == BERTH_OK && more) {
        memmove(line->buf.data + more, line->buf.data, len);
        memcpy(line->buf.data, newline, more);
    }
    return rc;
}

/* e LABEL SIGNAL: signals all whose environment has the label; $y says whether there were any, and
 * after KILL whether there still are. What leaves its session keeps its environment. Without /proc
 * nothing is found. */
#define END_LABELLED                                                                               \
    "e() { i=0; y=1; while [ -n \"$y\" ] && [ $i -lt 20 ]; do i=$((i + 1)); y=;"                   \
    " for f in $(grep -Fls -- \"$1\" /proc/[0-9]*/environ 2>/dev/null); do"                        \
    " f=${f#/proc/}; kill -s \"$2\" \"${f%/environ}\" 2>/dev/null && y=1; done;"                   \
    " [ \"$2\" = KILL ] || break; done; }; "

/* u SECONDS: sleeps, also where sleep(1) knows whole seconds only. */
#define SLEEP "u() { sleep \"$1\" 2>/dev/null || sleep \"$((${1%.*} + 1))\"; }; "

/* w FILE TENTHS: waits for a file. */
#define AWAIT                                                                                      \
    SLEEP "w() { j=0; while ! [ -e \"$1\" ] && [ $j -lt \"$2\" ]; do j=$((j + 1)); u 0.1; done; "  \
          "}; "

/* q CAUSE: asks the command to end, and ends it after the grace; by its label, or where there is no
 * /proc by its group. */
#define END_COMMAND                                                                                \
    END_LABELLED AWAIT                                                                             \
        "q() { echo \"$1\" >\"$d/$x.cause\"; b=; if [ -e \"$d/$x.pid\" ]; then"                    \
        " read -r b <\"$d/$x.pid\"; kill -s TERM -- \"-$b\"; fi; j=0;"                             \
        " while e \"BERTH_EXEC_ID=$x\" TERM; [ -z \"$y$b\" ] && [ $j -lt 50 ] &&"                  \
        " ! [ -e \"$d/$x.end\" ]; do j=$((j + 1)); u 0.1; done;"                                   \
        " e \"BERTH_EXEC_ID=$x\" CONT; w \"$d/$x.end\" \"$g\";"                                    \
        " [ -z \"$b\" ] || kill -s KILL -- \"-$b\"; e \"BERTH_EXEC_ID=$x\" KILL; }; "

const char berth_ssh_keep[] =
    END_LABELLED "r=; command -v timeout >/dev/null 2>&1 && r='timeout 5';"
                 " a=$($r \"${SHELL:-/bin/sh}\" -lc 'printf \"\\n%s%s\\n\" '\"'$m'\"' \"$PATH\"'"
                 " </dev/null 2>/dev/null | sed -n \"/^$m/{s///p;q;}\");"
                 " printf '%s%s:%s;' \"$m\" \"${SHELL##*/}\" \"$a\";"
                 " while IFS= read -r l; do (eval \"$l\") </dev/null >/dev/null 2>&1 & done;"
                 " exec >/dev/null 2>&1;"
                 " e \"$k\" TERM; [ -z \"$y\" ] || sleep 1; e \"$k\" KILL;";

/* Bash knows of no program that may not be run; what is there is left to "exec" to refuse. */
#define IS_THERE                                                                                   \
    "command -v -- \"$2\" >/dev/null || case $2 in */*) [ -e \"$2\" ];; *) false;; esac"

/* The command has the variables and we do not: what we start meanwhile is not its own, and whatever
 * they are called, they are not ours; so all that is needed behind z is an argument. The first of
 * them is where its number is kept when there is no /proc to find it by. `session`: how it gets one
 * of its own, in which its number is also that of its group. */
#define COMMAND(session)                                                                           \
    "set -- \"$d/$x.pid\" \"$@\"; (z; exec 2>&4 4>&-; " IS_THERE " ||"                             \
    " { printf 'There is no program \"%s\".\\n' \"$2\" >&2; exit 127; };"                          \
    " if [ -r /proc/self/environ ]; then shift; else set -- /bin/sh -c"                            \
    " 'echo $$ >\"$0\"; exec \"$@\"' \"$@\"; fi; " session "exec \"$@\"); s=$?; "

#define OWN_SESSION "[ -x /usr/bin/setsid ] && exec /usr/bin/setsid -- \"$@\"; "

/* A signal that we did not ask for, and nobody listens any more: it was the end of the connection
 * that ended the command (berth_ssh_keep), and how it would have ended is not known. The mark is
 * said by then. */
#define WHO_LISTENS                                                                                \
    " if [ \"$s\" -gt 128 ] && [ -z \"$a\" ]; then printf %s \"$m\" >&4 || a=lost; m=;"            \
    " fi;"

/* The shell's own words ("Killed") do not belong on the command's stderr: that is 4 meanwhile. The
 * end of stdout is told on stdout, behind all that the command wrote there. */
#define RUN(begin, timer, session, end_of_stdout, end)                                             \
    "[ -z \"$p\" ] || PATH=$p; [ -d \"$d\" ] || mkdir -p \"$d\"; exec 4>&2 2>/dev/null; "          \
    "a=; " begin "printf %s \"$m\"; if { [ -d \"$h\" ] || [ \"$h\" != \"$d/workspace\" ] ||"       \
    " mkdir -p \"$h\"; } && cd \"$h\"; then " timer                                                \
    COMMAND(session) "else s=125;"                                                                 \
                     " printf 'Working directory does not exist: \"%s\"\\n' \"$h\" >&4; fi;"       \
                     " trap '' PIPE; " end_of_stdout "[ -z \"$a\" ] && [ -s \"$d/$x.cause\" ] && " \
                     "read -r a <\"$d/$x.cause\";" WHO_LISTENS " echo \"$s $a\" >\"$d/$x.end\";"   \
                     " printf '%s%s %s;' \"$m\" \"$s\" \"$a\" >&4;" end

#define ON_PIPES "printf %s \"$m\" >&4; "
#define END_OF_STDOUT "printf %s \"$m\"; "
/* Here the command is in our session: it must be, to have the terminal. */
#define ON_TERMINAL "stty \"$o\"; trap : INT QUIT TSTP TERM HUP; "

/* The timer is not for others to end: it is killed with our group when the command is over. What
 * it was about to end, which need not have gone with the command, is ended first. We hear of it by
 * a signal: a file can be lost, with the workspace or on a full disk. */
#define TIMER                                                                                      \
    "trap 'a=timeout' USR1; (trap '' TERM HUP INT; u \"$t\"; kill -s USR1 $$; q timeout)"          \
    " </dev/null >/dev/null 2>&1 4>&- & "
#define END_TIMER " [ -z \"$a\" ] || e \"BERTH_EXEC_ID=$x\" KILL; kill -s KILL 0;"

const char berth_ssh_run[] = RUN(ON_PIPES, "", OWN_SESSION, END_OF_STDOUT, "");
const char berth_ssh_run_timed[] =
    END_COMMAND RUN(ON_PIPES, TIMER, OWN_SESSION, END_OF_STDOUT, END_TIMER);
const char berth_ssh_run_tty[] = RUN(ON_TERMINAL, "", "", "", "");
const char berth_ssh_run_tty_timed[] = END_COMMAND RUN(ON_TERMINAL, TIMER, "", "", END_TIMER);

const char berth_ssh_cancel[] = END_COMMAND "exec >/dev/null 2>&1; q \"$c\";";

const char berth_ssh_settle[] = END_LABELLED AWAIT
    "[ -e \"$d/$x.end\" ] || [ -e \"$d/$x.cause\" ] ||"
    " { echo lost >\"$d/$x.cause\"; } 2>/dev/null;"
    " e \"BERTH_EXEC_ID=$x\" KILL; w \"$d/$x.end\" 20;"
    " r='- lost'; { IFS= read -r r <\"$d/$x.end\"; } 2>/dev/null; printf '%s%s;' \"$m\" \"$r\";";

/* The name of a lease's directory is its label; what it says inside is the place's id. Where that
 * cannot be written nothing stays. It is written by cat, which says why it cannot. */
const char berth_ssh_acquire[] =
    "mkdir -p \"$h\" && cd \"$h\" && umask 077 && f=.berth/leases/$l &&"
    " { { mkdir -p \"$f/workspace\" && { [ -s \"$f/place\" ] || { printf '%s\\n' \"$i$PWD$j\" | cat"
    " >\"$f/place.new\" &&"
    " mv \"$f/place.new\" \"$f/place\"; }; }; } ||"
    " { { rm -rf \"$f\"; rmdir .berth/leases .berth; } 2>/dev/null; false; }; } &&"
    " { printf '%s' \"$m\"; cat \"$f/place\"; pwd; printf ';'; };";

const char berth_ssh_release[] =
    END_LABELLED "e \"BERTH_LEASE_ID=$l\" TERM; [ -z \"$y\" ] || sleep 1;"
                 " e \"BERTH_LEASE_ID=$l\" KILL;"
                 " if [ -n \"$y\" ]; then echo 'Something still runs for the lease.' >&2; exit 1;"
                 " elif ! [ -e \"$h\" ] || cd \"$h\"; then"
                 " { rm -rf \".berth/leases/$l\" 2>/dev/null || {"
                 " find \".berth/leases/$l\" -type d -exec chmod u+rwx {} +;"
                 " rm -rf \".berth/leases/$l\"; }; } && ! [ -e \".berth/leases/$l\" ] &&"
                 " { rmdir .berth/leases .berth 2>/dev/null; printf '%s;' \"$m\"; };"
                 " fi;";

const char berth_ssh_realize[] =
    "mkdir -p \"$h\" && cd \"$h\" && { printf '%s' \"$m\"; pwd; printf ';'; };";

const char berth_ssh_find[] =
    "printf '%s' \"$m\"; if cd \"$h\" 2>/dev/null; then for l in .berth/leases/*/place; do"
    " { IFS= read -r i <\"$l\"; } 2>/dev/null || continue; l=${l#.berth/leases/};"
    " printf '%s %s\\n' \"${l%/place}\" \"$i\"; done; fi; printf ';';";

const char berth_ssh_probe[] =
    "mkdir -p \"$h\" && cd \"$h\" && { true >\".berth-probe.$$\"; } &&"
    " rm -f \".berth-probe.$$\" && { printf '%s' \"$m\"; pwd; printf ';'; };";
