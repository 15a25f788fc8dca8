/* SPDX-License-Identifier: Apache-2.0
 * src/driver/ssh_script.c - see ssh_script.h. The texts are POSIX sh, for dash, bash and busybox
 * alike; each is one line, so statements end with ";". */
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
    for (unsigned i = 0; i < sizeof bytes; i++)
        (void)snprintf(mark.text + 1 + 2 * i, 3, "%02x", bytes[i]);
    return mark;
}

void berth_ssh_line_clear(struct berth_ssh_line *line)
{
    if (line->buf.data)
        explicit_bzero(line->buf.data, line->buf.len);
    berth_buf_clear(&line->buf);
}

/* In single quotes; a newline, which would end the line, is the value of $n. */
static void quote(struct berth_buf *buf, const char *text)
{
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

/* What ends a quoted text may hold newlines, so $n is there from the start. */
static void begin(struct berth_ssh_line *line)
{
    if (line->buf.len == 0)
        berth_buf_puts(&line->buf, "n=$(printf '\\n_'); n=${n%_}; ");
}

void berth_ssh_line_set(struct berth_ssh_line *line, const char *name, const char *value)
{
    begin(line);
    berth_buf_puts(&line->buf, name);
    berth_buf_puts(&line->buf, "=");
    quote(&line->buf, value);
    berth_buf_puts(&line->buf, "; ");
}

void berth_ssh_line_export(struct berth_ssh_line *line, const char *pair)
{
    begin(line);
    const char *equals = strchr(pair, '=');
    berth_buf_puts(&line->buf, "export ");
    berth_buf_append(&line->buf, pair, (size_t)(equals + 1 - pair));
    quote(&line->buf, equals + 1);
    berth_buf_puts(&line->buf, "; ");
}

void berth_ssh_line_args(struct berth_ssh_line *line, const char *const *argv)
{
    begin(line);
    berth_buf_puts(&line->buf, "set --");
    for (; *argv; argv++) {
        berth_buf_puts(&line->buf, " ");
        quote(&line->buf, *argv);
    }
    berth_buf_puts(&line->buf, "; ");
}

void berth_ssh_line_end(struct berth_ssh_line *line, const char *script)
{
    berth_buf_puts(&line->buf, script);
    berth_buf_puts(&line->buf, "\n");
}

/* e LABEL SIGNAL: signals all whose environment has the label; $y says whether there were any. What
 * leaves its session keeps its environment. Without /proc nothing is found. */
#define END_LABELLED                                                                               \
    "e() { i=0; while y=; [ $i -lt 20 ]; do i=$((i + 1));"                                         \
    " for f in $(grep -Fls -- \"$1\" /proc/[0-9]*/environ 2>/dev/null); do"                        \
    " f=${f#/proc/}; kill -s \"$2\" \"${f%/environ}\" 2>/dev/null && y=1; done;"                   \
    " if [ -z \"$y\" ] || [ \"$2\" != KILL ]; then break; fi; done; }; "

/* u SECONDS: sleeps, also where sleep(1) knows whole seconds only. */
#define SLEEP "u() { sleep \"$1\" 2>/dev/null || sleep \"$((${1%.*} + 1))\"; }; "

/* w FILE TENTHS: waits for a file. */
#define AWAIT                                                                                      \
    SLEEP "w() { j=0; while ! [ -e \"$1\" ] && [ $j -lt \"$2\" ]; do j=$((j + 1)); u 0.1; done; "  \
          "}; "

/* q CAUSE: asks the command to end, and ends it after the grace. */
#define END_COMMAND                                                                                \
    END_LABELLED AWAIT "q() { { echo \"$1\" >\"$d/$x.cause\"; } 2>/dev/null; w \"$d/$x.pid\" 50;"  \
                       " b=; { read -r b <\"$d/$x.pid\"; } 2>/dev/null; [ -z \"$b\" ] ||"          \
                       " { kill -s TERM -- \"-$b\" || kill -s TERM \"$b\";"                        \
                       " kill -s CONT -- \"-$b\"; } 2>/dev/null; w \"$d/$x.end\" \"$g\";"          \
                       " [ -z \"$b\" ] || [ -e \"$d/$x.end\" ] ||"                                 \
                       " kill -s KILL -- \"-$b\" 2>/dev/null;"                                     \
                       " e \"BERTH_EXEC_ID=$x\" KILL; }; "

const char berth_ssh_keep[] =
    END_LABELLED "r=; command -v timeout >/dev/null 2>&1 && r='timeout 5';"
                 " a=$($r \"${SHELL:-/bin/sh}\" -lc 'printf \"\\n%s%s\\n\" '\"'$m'\"' \"$PATH\"'"
                 " </dev/null 2>/dev/null | sed -n \"/^$m/{s///p;q;}\");"
                 " printf '%s%s;' \"$m\" \"$a\";"
                 " while IFS= read -r l; do :; done;"
                 " exec >/dev/null 2>&1;"
                 " e \"$k\" TERM; [ -z \"$y\" ] || sleep 1; e \"$k\" KILL;";

#define RUN_BEGIN                                                                                  \
    END_COMMAND                                                                                    \
    "[ -z \"$p\" ] || export PATH=\"$p\"; [ -d \"$d\" ] || mkdir -p \"$d\" 2>/dev/null; s=125; "

/* Not for others to end: it is killed with our group when the command is over. */
#define RUN_TIMER                                                                                  \
    "if [ -n \"$t\" ]; then (trap '' TERM HUP INT; u \"$t\"; q timeout)"                           \
    " </dev/null >/dev/null 2>&1 4>&- & fi; "

/* The number of the command is known before it runs, and it is also that of its group when it has
 * a session of its own. */
#define RUN_COMMAND                                                                                \
    "/bin/sh -c '{ echo $$ >\"$0\"; } 2>/dev/null; exec \"$@\"' \"$d/$x.pid\" \"$@\""

#define RUN_END                                                                                    \
    "a=; b=; { read -r b <\"$d/$x.pid\"; read -r a <\"$d/$x.cause\"; } 2>/dev/null;"               \
    " [ -z \"$a\" ] || e \"BERTH_EXEC_ID=$x\" KILL;"                                               \
    " { echo \"$s $a\" >\"$d/$x.end\"; } 2>/dev/null; "

/* The shell's own words ("Killed") do not belong on the command's stderr: that is 4 meanwhile. */
const char berth_ssh_run[] =
    RUN_BEGIN "exec 4>&2 2>/dev/null; printf %s \"$m\"; printf %s \"$m\" >&4;"
              " if ! cd \"$h\"; then printf 'Working directory does not exist: \"%s\"\\n' \"$h\""
              " >&4; elif ! command -v \"$1\" >/dev/null; then"
              " printf 'There is no program \"%s\".\\n' \"$1\" >&4; s=127;"
              " else " RUN_TIMER "v=; command -v setsid >/dev/null && v=setsid;"
              " (exec 2>&4 4>&-; exec $v " RUN_COMMAND "); s=$?; fi; " RUN_END
              "[ -z \"$b\" ] || kill -s KILL -- \"-$b\";"
              " printf '%s%s %s;' \"$m\" \"$s\" \"$a\" >&4;"
              " [ -z \"$t\" ] || kill -s KILL 0;";

/* The command is in our session here: it must be, to have the terminal. */
const char berth_ssh_run_tty[] = RUN_BEGIN
    "stty \"$o\"; printf %s \"$m\"; trap : INT QUIT TSTP TERM HUP;"
    " if ! cd \"$h\" 2>/dev/null; then"
    " printf 'Working directory does not exist: \"%s\"\\n' \"$h\";"
    " elif ! command -v \"$1\" >/dev/null; then"
    " printf 'There is no program \"%s\".\\n' \"$1\"; s=127;"
    " else " RUN_TIMER RUN_COMMAND "; s=$?; fi; " RUN_END "printf '%s%s %s;' \"$m\" \"$s\" \"$a\";"
    " [ -z \"$t\" ] || kill -s KILL 0;";

const char berth_ssh_cancel[] = END_COMMAND "q \"$c\" >/dev/null 2>&1;";

const char berth_ssh_settle[] = END_LABELLED AWAIT
    "[ -e \"$d/$x.end\" ] || [ -e \"$d/$x.cause\" ] ||"
    " { echo lost >\"$d/$x.cause\"; } 2>/dev/null;"
    " e \"BERTH_EXEC_ID=$x\" KILL; w \"$d/$x.end\" 20;"
    " r='- lost'; { IFS= read -r r <\"$d/$x.end\"; } 2>/dev/null; printf '%s%s;' \"$m\" \"$r\";";

/* The name of a lease's directory is its label; what it says inside is the place's id. */
const char berth_ssh_acquire[] =
    "mkdir -p \"$h\" && cd \"$h\" && umask 077 && mkdir -p \".berth/leases/$l\" &&"
    " if ! [ -s \".berth/leases/$l/place\" ]; then"
    " echo \"$i\" >\".berth/leases/$l/place.new\" &&"
    " mv \".berth/leases/$l/place.new\" \".berth/leases/$l/place\"; fi &&"
    " { printf '%s' \"$m\"; cat \".berth/leases/$l/place\"; pwd; printf ';'; };";

const char berth_ssh_release[] =
    END_LABELLED "e \"BERTH_LEASE_ID=$l\" TERM; [ -z \"$y\" ] || sleep 1;"
                 " e \"BERTH_LEASE_ID=$l\" KILL;"
                 " if cd \"$h\" 2>/dev/null; then"
                 " rm -rf \".berth/leases/$l\" && ! [ -e \".berth/leases/$l\" ] &&"
                 " { rmdir .berth/leases .berth 2>/dev/null; printf '%s;' \"$m\"; };"
                 " else printf '%s;' \"$m\"; fi;";

const char berth_ssh_realize[] =
    "mkdir -p \"$h\" && cd \"$h\" && { printf '%s' \"$m\"; pwd; printf ';'; };";

const char berth_ssh_find[] =
    "printf '%s' \"$m\"; if cd \"$h\" 2>/dev/null; then for l in .berth/leases/*/place; do"
    " { IFS= read -r i <\"$l\"; } 2>/dev/null || continue; l=${l#.berth/leases/};"
    " printf '%s %s\\n' \"${l%/place}\" \"$i\"; done; fi; printf ';';";

const char berth_ssh_probe[] =
    "mkdir -p \"$h\" && cd \"$h\" && { true >\".berth-probe.$$\"; } &&"
    " rm -f \".berth-probe.$$\" && { printf '%s' \"$m\"; pwd; printf ';'; };";
