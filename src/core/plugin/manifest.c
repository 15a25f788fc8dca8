/* SPDX-License-Identifier: Apache-2.0
 * src/core/plugin/manifest.c - see manifest.h. The form of a manifest is a table of rules, read by
 * a few functions that know kinds of values, not keys. Users of Paperclip know the texts. */
#include "core/plugin/manifest.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/map.h"
#include "base/utf8.h"

#define FAULTS_MAX 1000 /* in each list; more would not be read */
#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define DIGITS "0123456789"
#define IDENTIFIER LOWER "ABCDEFGHIJKLMNOPQRSTUVWXYZ" DIGITS "-"

/* --- versions --- */

/* Behind what is made of `chars` between dots, with the number of parts; NULL: a part is empty. */
static const char *skip_list(const char *p, const char *chars, int *parts)
{
    for (*parts = 1;; p++, (*parts)++) {
        size_t len = strspn(p, chars);
        if (len == 0)
            return NULL;
        p += len;
        if (*p != '.')
            return p;
    }
}

static bool is_version(const char *text)
{
    int parts;
    const char *p = skip_list(text, DIGITS, &parts);
    if (!p || parts != 3)
        return false;
    if (*p == '-')
        p = skip_list(p + 1, IDENTIFIER, &parts);
    if (p && *p == '+')
        p = skip_list(p + 1, IDENTIFIER, &parts);
    return p && !*p;
}

/* A number, of any length, is less than a word. */
static int compare_identifiers(const char *a, size_t a_len, const char *b, size_t b_len)
{
    bool a_number = strspn(a, DIGITS) >= a_len, b_number = strspn(b, DIGITS) >= b_len;
    if (a_number != b_number)
        return a_number ? -1 : 1;
    for (; a_number && a_len && *a == '0'; a_len--)
        a++;
    for (; b_number && b_len && *b == '0'; b_len--)
        b++;
    int longer = (a_len > b_len) - (a_len < b_len);
    int order = memcmp(a, b, longer < 0 ? a_len : b_len);
    return longer && (a_number || !order) ? longer : order;
}

/* Compares identifiers between dots, up to one of `ends`, which includes the dot. The longer list
 * is greater when the shorter one is its beginning. */
static int compare_lists(const char *a, const char *b, const char *ends)
{
    for (;; a++, b++) {
        size_t a_len = strcspn(a, ends), b_len = strcspn(b, ends);
        int order = compare_identifiers(a, a_len, b, b_len);
        if (order)
            return order;
        a += a_len;
        b += b_len;
        if (*a != '.' || *b != '.')
            return (*a == '.') - (*b == '.');
    }
}

int berth_semver_compare(const char *a, const char *b)
{
    int order = compare_lists(a, b, ".-+");
    if (order)
        return order;
    a += strcspn(a, "-+");
    b += strcspn(b, "-+");
    if (*a != '-' || *b != '-')
        return (*b == '-') - (*a == '-'); /* what was released is greater */
    return compare_lists(a + 1, b + 1, ".+");
}

/* --- reading by rules --- */

struct reading;
struct spot;

/* What a value must be. Zeros ask for nothing. */
struct rule {
    const char *name; /* its key; NULL for a list's item and behind the last member */
    enum berth_json_type type;
    bool optional;
    bool later;      /* of later hosts: a fault is a warning, and the value is left out */
    size_t min, max; /* characters of a text, items of a list; max 0: any number */
    bool (*fits)(const char *text);
    const char *misfit;       /* the message when it does not */
    const char *const *words; /* the text is one of them; ends with NULL */
    void (*check)(struct reading *r, const struct spot *at); /* what else must hold */
    const struct rule *inner; /* a list's item, an object's members; NULL: an object as it is */
};

struct reading {
    struct berth_arena *arena;
    struct berth_issues *faults, *warnings;
    bool faulty; /* there was a fault */
    bool broken; /* a value is missing or no such value: rules between fields make no sense */
};

/* A value, and where it stands: the way up ends with the manifest itself, which has no name. */
struct spot {
    const struct spot *up;
    const char *name; /* NULL: an item */
    size_t index;
    const struct rule *rule;
    const struct berth_json *in; /* NULL: not there */
};

static const char *path_of(struct berth_arena *arena, const struct spot *at)
{
    if (!at || !(at->up || at->name))
        return "";
    const char *up = path_of(arena, at->up), *dot = *up ? "." : "";
    const char *path = at->name ? berth_arena_printf(arena, "%s%s%s", up, dot, at->name)
                                : berth_arena_printf(arena, "%s%s%zu", up, dot, at->index);
    return path ? path : "";
}

/* A long text is cut between characters. */
BERTH_PRINTF(3, 4)
static void fault(struct reading *r, const struct spot *at, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    text[berth_utf8_whole(text, strlen(text))] = '\0';
    r->faulty = true;
    if (r->faults->list.count < FAULTS_MAX)
        berth_issues_add(r->faults, path_of(r->arena, at), "%s", text);
}

/* Faults in what is read so are warnings, and no business of the reading around it. */
static struct reading lenient(const struct reading *r)
{
    return (struct reading){.arena = r->arena, .faults = r->warnings, .warnings = r->warnings};
}

/* 'a' | 'b' */
static const char *choice(struct berth_arena *arena, const char *const *words)
{
    const char *text = "";
    for (int i = 0; words[i] && text; i++)
        text = berth_arena_printf(arena, "%s%s'%s'", text, i ? " | " : "", words[i]);
    return text ? text : "";
}

/* No such value, or none. */
static struct berth_json *mismatch(struct reading *r, const struct spot *at)
{
    static const char *const names[] = {"null",   "boolean", "number", "number",
                                        "string", "array",   "object"};
    const struct rule *rule = at->rule;
    r->broken = true;
    if (rule->type == BERTH_JSON_INT)
        fault(r, at, "Invalid literal value, expected 1");
    else if (at->in)
        fault(r, at, "Expected %s, received %s",
              rule->words ? choice(r->arena, rule->words) : names[rule->type],
              names[berth_json_type(at->in)]);
    else
        fault(r, at, "Required");
    return NULL;
}

static void check_size(struct reading *r, const struct spot *at, size_t size, const char *what,
                       const char *unit)
{
    if (size < at->rule->min)
        fault(r, at, "%s must contain at least %zu %s(s)", what, at->rule->min, unit);
    if (at->rule->max && size > at->rule->max)
        fault(r, at, "%s must contain at most %zu %s(s)", what, at->rule->max, unit);
}

/* Returns the length in units of UTF-16, which is how JavaScript counts. */
static size_t count_units(const char *text)
{
    size_t count = 0;
    for (; *text; text++)
        count += ((unsigned char)*text & 0xc0) == 0x80 ? 0 : (unsigned char)*text >= 0xf0 ? 2 : 1;
    return count;
}

static void check_text(struct reading *r, const struct spot *at)
{
    const char *text = berth_json_str(at->in);
    const char *const *word = at->rule->words;
    while (word && *word && strcmp(*word, text) != 0)
        word++;
    if (word && !*word) {
        fault(r, at, "Invalid enum value. Expected %s, received '%s'",
              choice(r->arena, at->rule->words), text);
        r->broken = true;
    }
    check_size(r, at, count_units(text), "String", "character");
    if (at->rule->fits && !at->rule->fits(text))
        fault(r, at, "%s", at->rule->misfit);
}

/* A new value; without one, memory ran out. */
static struct berth_json *made(struct reading *r, struct berth_json *value)
{
    if (!value)
        r->arena->failed = true;
    return value;
}

static struct berth_json *read_value(struct reading *r, const struct spot *at);

static struct berth_json *read_list(struct reading *r, const struct spot *at)
{
    struct berth_json *out = made(r, berth_json_new_array());
    struct spot here = {.up = at, .rule = at->rule->inner};
    size_t count = berth_json_count(at->in);
    check_size(r, at, count, "Array", "element");
    for (; here.index < count; here.index++) {
        here.in = berth_json_at(at->in, here.index);
        struct berth_json *item = read_value(r, &here);
        if (item && !berth_json_add(out, item))
            r->arena->failed = true;
    }
    return out;
}

/* Reads an object by its rules. A key that only later hosts know is left out when they would refuse
 * its value; that is not an error here. */
static struct berth_json *read_object(struct reading *r, const struct spot *at)
{
    struct berth_json *out = made(r, berth_json_new_object());
    for (const struct rule *rule = at->rule->inner; rule->name; rule++) {
        const struct spot here = {
            .up = at, .name = rule->name, .rule = rule, .in = berth_json_get(at->in, rule->name)};
        if (!here.in && rule->optional)
            continue;
        struct reading inner = lenient(r);
        struct berth_json *member = read_value(rule->later ? &inner : r, &here);
        if (inner.faulty)
            berth_json_free(member);
        else if (member && !berth_json_set(out, rule->name, member))
            r->arena->failed = true;
    }
    return out;
}

/* The normalised value; NULL after a fault that leaves none. */
static struct berth_json *read_value(struct reading *r, const struct spot *at)
{
    const struct rule *rule = at->rule;
    if (rule->type == BERTH_JSON_INT && berth_json_number(at->in) == 1)
        return made(r, berth_json_new_int(1)); /* 1.0 is 1, too */
    if (rule->type == BERTH_JSON_INT || !berth_json_is(at->in, rule->type))
        return mismatch(r, at);
    if (rule->type == BERTH_JSON_ARRAY)
        return read_list(r, at);
    if (rule->inner)
        return read_object(r, at);
    if (rule->type == BERTH_JSON_STRING)
        check_text(r, at);
    if (rule->check)
        rule->check(r, at);
    return made(r, berth_json_copy(at->in));
}

/* --- the rules --- */

/* A space before and behind each. */
static const char capabilities[] =
    " companies.read projects.read project.workspaces.read issues.read issue.relations.read "
    "issue.subtree.read issue.comments.read issue.documents.read agents.read goals.read "
    "goals.create goals.update activity.read costs.read issues.orchestration.read "
    "database.namespace.read issues.create issues.update issue.relations.write issues.checkout "
    "issues.wakeup issue.comments.create issue.interactions.create issue.documents.write "
    "projects.managed routines.managed skills.managed agents.pause agents.resume agents.invoke "
    "agents.managed agent.sessions.create agent.sessions.list agent.sessions.send "
    "agent.sessions.close activity.log.write metrics.write telemetry.track "
    "database.namespace.migrate database.namespace.write plugin.state.read plugin.state.write "
    "events.subscribe events.emit jobs.schedule webhooks.receive api.routes.register "
    "http.outbound secrets.read-ref environment.drivers.register local.folders "
    "agent.tools.register instance.settings.register ui.sidebar.register ui.page.register "
    "ui.detailTab.register ui.dashboardWidget.register ui.commentAnnotation.register "
    "ui.action.register ";

/* Later hosts have more of them than we know. */
static void check_capability(struct reading *r, const struct spot *at)
{
    const char *text = berth_json_str(at->in);
    const char *padded = berth_arena_printf(r->arena, " %s ", text);
    struct reading inner = lenient(r);
    if (padded && (strchr(text, ' ') || !strstr(capabilities, padded)))
        fault(&inner, at, "Unknown capability '%s'", text);
}

static void check_schema(struct reading *r, const struct spot *at)
{
    static const char *const enough[] = {"$ref", "oneOf", "anyOf", "allOf"};
    bool fine = berth_json_count(at->in) == 0 || berth_json_str(berth_json_get(at->in, "type"));
    for (size_t i = 0; i < sizeof enough / sizeof *enough; i++)
        fine = fine || berth_json_get(at->in, enough[i]);
    if (!fine)
        fault(r, at,
              "Must be a valid JSON Schema object (requires at least a 'type', '$ref', or "
              "composition keyword)");
}

static bool is_key(const char *text)
{
    return strspn(text, LOWER DIGITS) > 0 && !text[strspn(text, LOWER DIGITS "._-")];
}
#define KEY_MISFIT                                                                                 \
    " must start with a lowercase alphanumeric and contain only lowercase letters, digits, dots, " \
    "hyphens, or underscores"

#define TEXT BERTH_JSON_STRING
#define FLAG BERTH_JSON_BOOL
#define LIST BERTH_JSON_ARRAY
#define OBJECT BERTH_JSON_OBJECT
#define ONE BERTH_JSON_INT /* an integer that must be 1 */
#define MAYBE .optional = true
#define LATER .optional = true, .later = true

static const char *const categories[] = {"connector", "workspace", "automation", "ui", NULL};
static const char *const driver_kinds[] = {"environment_driver", "sandbox_provider", NULL};

static const struct rule any_text = {NULL, TEXT};
static const struct rule any_object = {NULL, OBJECT};
static const struct rule category = {NULL, TEXT, .words = categories};
static const struct rule capability = {NULL, TEXT, .check = check_capability};

static const struct rule entrypoints[] = {
    {"worker", TEXT, .min = 1},
    {"ui", TEXT, MAYBE, .min = 1},
    {NULL},
};

static const struct rule sandbox_capabilities[] = {
    {"reusableLeases", FLAG, LATER},
    {"nativeSyncIn", FLAG, LATER},
    {"nativeSyncOut", FLAG, LATER},
    {"persistentProcessSessions", FLAG, LATER},
    {"independentControlCommands", FLAG, LATER},
    {"incrementalSessionOutput", FLAG, LATER},
    {"concurrentSyncOperations", FLAG, LATER},
    {"duplexCommandStream", FLAG, LATER},
    {NULL},
};

static const struct rule template_binding[] = {
    {"field", TEXT},
    {"unsetFields", LIST, MAYBE, .max = 20, .inner = &any_text},
    {NULL},
};

static const struct rule driver_members[] = {
    {"driverKey", TEXT, .min = 1, .fits = is_key, .misfit = "Environment driver key" KEY_MISFIT},
    {"kind", TEXT, MAYBE, .words = driver_kinds},
    {"displayName", TEXT, .min = 1, .max = 100},
    {"description", TEXT, MAYBE, .max = 500},
    {"configSchema", OBJECT, .check = check_schema},
    {"sandboxCapabilities", OBJECT, LATER, .inner = sandbox_capabilities},
    {"supportsReusableLeases", FLAG, LATER},
    {"supportsInteractiveSetup", FLAG, LATER},
    {"interactiveSetupConnectionTypes", LIST, LATER, .max = 10, .inner = &any_text},
    {"supportsTemplateCapture", FLAG, LATER},
    {"supportsTemplateDelete", FLAG, LATER},
    {"templateRefKind", TEXT, LATER},
    {"templateConfigBinding", OBJECT, LATER, .inner = template_binding},
    {"templateIdentityPaths", LIST, LATER, .max = 20, .inner = &any_text},
    {"supportsLoginPty", FLAG, LATER},
    {"supportsSetupTokenLogin", FLAG, LATER},
    {NULL},
};
static const struct rule driver = {NULL, OBJECT, .inner = driver_members};

static const struct rule manifest_members[] = {
    {"id", TEXT, .min = 1, .fits = is_key, .misfit = "Plugin id" KEY_MISFIT},
    {"apiVersion", ONE},
    {"version", TEXT, .min = 1, .fits = is_version,
     .misfit = "Version must follow semver (e.g. 1.0.0 or 1.0.0-beta.1)"},
    {"displayName", TEXT, .min = 1, .max = 100},
    {"description", TEXT, .min = 1, .max = 500},
    {"author", TEXT, .min = 1, .max = 200},
    {"categories", LIST, .min = 1, .inner = &category},
    {"minimumHostVersion", TEXT, MAYBE, .fits = is_version,
     .misfit = "minimumHostVersion must follow semver (e.g. 1.0.0)"},
    {"minimumPaperclipVersion", TEXT, MAYBE, .fits = is_version,
     .misfit = "minimumPaperclipVersion must follow semver (e.g. 1.0.0)"},
    {"capabilities", LIST, .min = 1, .inner = &capability},
    {"entrypoints", OBJECT, .inner = entrypoints},
    {"instanceConfigSchema", OBJECT, MAYBE, .check = check_schema},
    {"jobs", LIST, MAYBE, .inner = &any_object},
    {"webhooks", LIST, MAYBE, .inner = &any_object},
    {"tools", LIST, MAYBE, .inner = &any_object},
    {"database", OBJECT, MAYBE},
    {"apiRoutes", LIST, MAYBE, .inner = &any_object},
    {"environmentDrivers", LIST, MAYBE, .inner = &driver},
    {"agents", LIST, MAYBE, .inner = &any_object},
    {"projects", LIST, MAYBE, .inner = &any_object},
    {"routines", LIST, MAYBE, .inner = &any_object},
    {"skills", LIST, MAYBE, .inner = &any_object},
    {"localFolders", LIST, MAYBE, .inner = &any_object},
    {"launchers", LIST, MAYBE, .inner = &any_object},
    {"ui", OBJECT, MAYBE},
    {NULL},
};
static const struct rule manifest = {NULL, OBJECT, .inner = manifest_members};

/* --- rules between fields --- */

/* An empty text is already a fault of its own, and counts as none. */
static const char *filled(const struct berth_json *object, const char *key)
{
    const char *text = berth_json_str(berth_json_get(object, key));
    return text && *text ? text : NULL;
}

static void check_pairs(struct reading *r, const struct berth_json *all)
{
    const struct spot entry = {.name = "entrypoints.ui"}, minimum = {.name = "minimumHostVersion"};
    const struct berth_json *ui = berth_json_get(all, "ui");
    if ((berth_json_at(berth_json_get(ui, "slots"), 0) ||
         berth_json_at(berth_json_get(ui, "launchers"), 0)) &&
        !filled(berth_json_get(all, "entrypoints"), "ui"))
        fault(r, &entry, "entrypoints.ui is required when ui.slots or ui.launchers are declared");
    const char *host = filled(all, "minimumHostVersion");
    const char *older = filled(all, "minimumPaperclipVersion");
    if (host && older && strcmp(host, older) != 0)
        fault(r, &minimum,
              "minimumHostVersion and minimumPaperclipVersion must match when both are declared");
}

static bool has_capability(const struct berth_json *all, const char *name)
{
    const struct berth_json *list = berth_json_get(all, "capabilities");
    size_t i = 0, count = berth_json_count(list);
    while (i < count && strcmp(berth_json_str(berth_json_at(list, i)), name) != 0)
        i++;
    return i < count;
}

static void check_capabilities(struct reading *r, const struct berth_json *all)
{
    static const struct {
        const char *capability, *member, *what;
    } needs[] = {
        {"agent.tools.register", "tools", "tools"},
        {"environment.drivers.register", "environmentDrivers", "environmentDrivers"},
        {"agents.managed", "agents", "managed agents"},
        {"projects.managed", "projects", "managed projects"},
        {"routines.managed", "routines", "managed routines"},
        {"skills.managed", "skills", "managed skills"},
        {"local.folders", "localFolders", "local folders"},
        {"jobs.schedule", "jobs", "jobs"},
        {"webhooks.receive", "webhooks", "webhooks"},
        {"api.routes.register", "apiRoutes", "apiRoutes"},
        {"database.namespace.migrate", "database", "database migrations"},
        {"database.namespace.read", "database", "database migrations"},
    };
    const struct spot at = {.name = "capabilities"};
    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++) {
        const struct berth_json *member = berth_json_get(all, needs[i].member);
        bool declared = berth_json_is(member, BERTH_JSON_OBJECT) || berth_json_at(member, 0);
        if (declared && !has_capability(all, needs[i].capability))
            fault(r, &at, "Capability '%s' is required when %s are declared", needs[i].capability,
                  needs[i].what);
    }
}

/* Names, and those among them that came twice: "a, b". */
struct names {
    struct berth_map seen;
    char twice[900];
    size_t used;
};

static void add_name(struct reading *r, struct names *n, const char *name)
{
    static char once, more; /* only their addresses count */
    void *before = berth_map_get(&n->seen, name);
    if (before != &more && !berth_map_put(&n->seen, name, before ? &more : &once))
        r->arena->failed = true;
    if (before == &once && n->used < sizeof n->twice)
        n->used += (size_t)snprintf(n->twice + n->used, sizeof n->twice - n->used, "%s%s",
                                    n->used ? ", " : "", name);
}

/* The texts of a list, or those at `key` of its items, or at both keys. */
static void add_names(struct reading *r, struct names *n, const struct berth_json *list,
                      const char *key, const char *key2)
{
    for (size_t i = 0; i < berth_json_count(list); i++) {
        const struct berth_json *item = berth_json_at(list, i);
        const char *name = berth_json_str(key ? berth_json_get(item, key) : item);
        const char *rest = key2 ? berth_json_str(berth_json_get(item, key2)) : "";
        if (name && rest && key2)
            name = berth_arena_printf(r->arena, "%s %s", name, rest);
        if (name && rest)
            add_name(r, n, name);
    }
}

/* Only launchers stand at the top and in a parent, and they are unique in both together. */
static void check_unique(struct reading *r, const struct berth_json *all)
{
    static const struct {
        const char *what, *parent, *list, *key, *key2;
    } lists[] = {
        {"database coreReadTables", "database", "coreReadTables", NULL, NULL},
        {"job keys", "", "jobs", "jobKey", NULL},
        {"webhook endpoint keys", "", "webhooks", "endpointKey", NULL},
        {"api route keys", "", "apiRoutes", "routeKey", NULL},
        {"api routes", "", "apiRoutes", "method", "path"},
        {"tool names", "", "tools", "name", NULL},
        {"environment driver keys", "", "environmentDrivers", "driverKey", NULL},
        {"local folder keys", "", "localFolders", "folderKey", NULL},
        {"managed agent keys", "", "agents", "agentKey", NULL},
        {"managed project keys", "", "projects", "projectKey", NULL},
        {"managed routine keys", "", "routines", "routineKey", NULL},
        {"managed skill keys", "", "skills", "skillKey", NULL},
        {"UI slot ids", "ui", "slots", "id", NULL},
        {"launcher ids", "ui", "launchers", "id", NULL},
    };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        const struct berth_json *top = berth_json_get(all, lists[i].list);
        const struct berth_json *inner =
            berth_json_get(berth_json_get(all, lists[i].parent), lists[i].list);
        const struct spot up = {.name = lists[i].parent};
        const struct spot at = {.up = inner ? &up : NULL, .name = lists[i].list};
        struct names names = {0};
        add_names(r, &names, top, lists[i].key, lists[i].key2);
        add_names(r, &names, inner, lists[i].key, lists[i].key2);
        if (names.used)
            fault(r, &at, "Duplicate %s: %s", lists[i].what, names.twice);
        berth_map_clear(&names.seen);
    }
}

/* --- what comes out --- */

/* Cut to what an error holds, between characters. */
static int manifest_refuse(const struct berth_list *faults, struct berth_error *err)
{
    int rc = berth_fail(err, BERTH_E_INVALID, "Invalid plugin manifest: ");
    size_t used = strlen(err->message);
    for (int i = 0; i < faults->count && used < sizeof err->message; i++) {
        const struct berth_issue *issue = faults->items[i];
        used +=
            (size_t)snprintf(err->message + used, sizeof err->message - used, "%s%s%s%s",
                             i ? "; " : "", issue->path, *issue->path ? ": " : "", issue->message);
    }
    err->message[berth_utf8_whole(err->message, strlen(err->message))] = '\0';
    return rc;
}

static char *text_at(struct berth_arena *arena, const struct berth_json *object, const char *key)
{
    return berth_arena_strdup(arena, berth_json_str(berth_json_get(object, key)));
}

static bool says_no(const struct berth_json *flag)
{
    return berth_json_is(flag, BERTH_JSON_BOOL) && !berth_json_true(flag);
}

static void fill_driver(struct berth_arena *arena, const struct berth_json *in,
                        struct berth_list *out)
{
    struct berth_manifest_driver *d = berth_arena_alloc(arena, sizeof *d);
    if (!d)
        return;
    d->key = text_at(arena, in, "driverKey");
    d->display_name = text_at(arena, in, "displayName");
    d->description = text_at(arena, in, "description");
    d->kind = text_at(arena, in, "kind");
    d->schema_json = berth_json_canonical_in(arena, berth_json_get(in, "configSchema"));
    const struct berth_json *able = berth_json_get(in, "sandboxCapabilities");
    d->never_resumes = says_no(berth_json_get(in, "supportsReusableLeases")) ||
                       says_no(berth_json_get(able, "reusableLeases"));
    d->never_carries = says_no(berth_json_get(able, "nativeSyncIn")) ||
                       says_no(berth_json_get(able, "nativeSyncOut"));
    (void)berth_list_add(out, arena, d);
}

/* NULL when memory ran out at once; later, the arena remembers. */
static struct berth_manifest *fill(struct berth_arena *arena, const struct berth_json *in)
{
    struct berth_manifest *m = berth_arena_alloc(arena, sizeof *m);
    if (!m)
        return NULL;
    m->id = text_at(arena, in, "id");
    m->version = text_at(arena, in, "version");
    m->display_name = text_at(arena, in, "displayName");
    m->description = text_at(arena, in, "description");
    m->author = text_at(arena, in, "author");
    m->worker = text_at(arena, berth_json_get(in, "entrypoints"), "worker");
    m->minimum_host_version = text_at(arena, in, "minimumHostVersion");
    if (!m->minimum_host_version)
        m->minimum_host_version = text_at(arena, in, "minimumPaperclipVersion");
    const struct berth_json *list = berth_json_get(in, "capabilities");
    for (size_t i = 0; i < berth_json_count(list); i++)
        (void)berth_list_add(&m->capabilities, arena,
                             berth_arena_strdup(arena, berth_json_str(berth_json_at(list, i))));
    list = berth_json_get(in, "environmentDrivers");
    for (size_t i = 0; i < berth_json_count(list); i++)
        fill_driver(arena, berth_json_at(list, i), &m->drivers);
    m->json = berth_json_canonical_in(arena, in);
    return m;
}

int berth_manifest_read(struct berth_arena *arena, const struct berth_json *value,
                        struct berth_issues *issues, struct berth_issues *warnings,
                        struct berth_manifest **out, struct berth_error *err)
{
    struct reading r = {.arena = arena, .faults = issues, .warnings = warnings};
    const struct spot whole = {.rule = &manifest, .in = value};
    auto_json *all = read_value(&r, &whole);
    if (!r.broken && !arena->failed) {
        check_pairs(&r, all);
        check_capabilities(&r, all);
        check_unique(&r, all);
    }
    struct berth_manifest *m = r.faulty || arena->failed ? NULL : fill(arena, all);
    int rc = berth_arena_check(arena, err);
    if (rc == BERTH_OK)
        rc = berth_arena_check(issues->arena, err);
    if (rc < 0)
        return rc;
    if (r.faulty)
        return manifest_refuse(&issues->list, err);
    *out = m;
    return BERTH_OK;
}
