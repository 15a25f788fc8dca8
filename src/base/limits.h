/* SPDX-License-Identifier: Apache-2.0
 * src/base/limits.h - the maximum of every size that comes from outside. */
#ifndef BERTH_BASE_LIMITS_H
#define BERTH_BASE_LIMITS_H

#define BERTH_TOKEN_BYTES_MAX 4096                  /* a token that a client sends */
#define BERTH_JSON_BYTES_MAX (16 * 1024 * 1024)     /* one document */
#define BERTH_MESSAGE_BYTES_MAX (128 * 1024 * 1024) /* one message of a plugin worker */
#define BERTH_MESSAGE_BYTES_SMALL (64 * 1024) /* a longer message is parsed on a pool thread */
#define BERTH_MESSAGE_OVERHEAD 1024 /* counted for each queued message besides its bytes */
/* Bytes queued for a worker that does not read. Above the smaller limit, answers to the worker's
 * own requests are dropped. */
#define BERTH_MESSAGES_QUEUED_MAX (256 * 1024 * 1024)
#define BERTH_ANSWERS_QUEUED_MAX (16 * 1024 * 1024)
#define BERTH_JSON_VALUES_MAX 500000 /* in one document */
#define BERTH_JSON_DEPTH_MAX 64      /* nested containers */

#define BERTH_NAME_BYTES_MAX 200              /* an environment's or company's name */
#define BERTH_DESCRIPTION_BYTES_MAX 4096      /* free text about it */
#define BERTH_CONFIG_BYTES_MAX (256 * 1024)   /* an environment's config, as JSON */
#define BERTH_METADATA_BYTES_MAX (256 * 1024) /* metadata of berth or of a provider, as JSON */
#define BERTH_PLACE_ID_BYTES_MAX 1024         /* a providerLeaseId */
#define BERTH_REASON_BYTES_MAX 1000           /* failureReason, clean-up errors */

#define BERTH_SECRET_BYTES_MAX (64 * 1024) /* one value */
#define BERTH_PATTERNS_BYTES_MAX                                                                   \
    (1024 * 1024) /* values looked for in one text, with their forms                               \
                   */
/* Secrets of a running command that are not counted, and those of all commands of a company that
 * are. The tables that find a secret take about 20 times its length. */
#define BERTH_MASKED_FREE_BYTES ((size_t)16 * 1024)
#define BERTH_MASKED_COMPANY_BYTES_MAX ((size_t)4 * 1024 * 1024)
#define BERTH_SECRET_KEY_BYTES_MAX 120 /* the name that programs use */

#define BERTH_REDACTED "***REDACTED***" /* replaces a secret in text */

#define BERTH_LIST_ROWS_MAX 1000 /* one page of leases or activity */
#define BERTH_LIST_ROWS_DEFAULT 100

#define BERTH_TTL_MS_MIN 1
#define BERTH_TTL_MS_MAX (INT64_C(366) * 24 * 60 * 60 * 1000)

#define BERTH_CLOCK_JUMP_MS 10000 /* steps of the wall clock up to this are followed */

#define BERTH_STORE_BATCH_MAX 256     /* requests in one SQLite transaction */
#define BERTH_STORE_POOL_DEFAULT 16   /* connections of PostgreSQL, or readers of SQLite */
#define BERTH_STORE_RETRIES_MAX 50    /* of a transaction that fails with 40001 or 40P01 */
#define BERTH_STORE_BUSY_MS_MAX 30000 /* waiting for another process's write lock */
/* PostgreSQL: to connect; of a statement, which the server then ends; for an answer, after which
 * the connection is given up; for a free connection; of a transaction that its client has left
 * open. */
#define BERTH_STORE_CONNECT_MS_MAX 5000
#define BERTH_STORE_STATEMENT_MS_MAX 15000
#define BERTH_STORE_ANSWER_MS_MAX 20000
#define BERTH_STORE_CHECKOUT_MS_MAX 20000
#define BERTH_STORE_IDLE_MS_MAX 60000
#define BERTH_STORE_SILENT_MS 3000 /* without an answer, after which the store counts as silent */

#define BERTH_PIPE_QUEUE_BYTES_MAX (1024 * 1024)   /* bytes queued for a pipe */
#define BERTH_STDIN_STEP_BYTES ((size_t)64 * 1024) /* written to a standard input at a time */

/* The standard inputs of all commands in places of plugins, which are sent whole. */
#define BERTH_INPUTS_BYTES_MAX (INT64_C(128) * 1024 * 1024)
/* Output that is collected for the watches of a command. */
#define BERTH_FAN_BYTES_MAX ((size_t)64 * 1024)

#define BERTH_HTTP_HEAD_BYTES_MAX (32 * 1024) /* a request line and its headers */
#define BERTH_HTTP_TARGET_BYTES_MAX (8 * 1024)
#define BERTH_HTTP_HEADERS_MAX 100
#define BERTH_HTTP_BODY_BYTES_MAX (2 * 1024 * 1024)
/* All bodies that a server collects at once; berthd fits it to the machine's memory. */
#define BERTH_HTTP_BODIES_BYTES_MIN (INT64_C(16) * 1024 * 1024)
#define BERTH_HTTP_BODIES_BYTES_MAX (INT64_C(128) * 1024 * 1024)
/* All answers that wait until their clients have taken them, likewise; one of them; and how fast a
 * client has to take one. */
#define BERTH_HTTP_ANSWERS_BYTES_MAX (4 * BERTH_HTTP_BODIES_BYTES_MAX)
#define BERTH_HTTP_ANSWER_BYTES_MAX (16 * 1024 * 1024)
#define BERTH_HTTP_ANSWER_BYTES_S (INT64_C(32) * 1024)
#define BERTH_HTTP_CALL_BYTES_MAX ((size_t)32 * 1024 * 1024) /* for one request, besides these */
/* A body up to this size that comes with its head is kept before the client is known. */
#define BERTH_HTTP_EARLY_BODY_BYTES_MAX 4096
#define BERTH_HTTP_READ_BYTES ((size_t)4096)    /* of a client that is not known, at a time */
#define BERTH_HTTP_WAITING_BYTES_MAX (8 * 1024) /* read ahead while a request is answered */
#define BERTH_IDEMPOTENCY_KEY_BYTES_MAX 255
#define BERTH_WEBSOCKET_MESSAGE_BYTES_MAX ((size_t)1024 * 1024) /* joined from its fragments */
#define BERTH_WEBSOCKET_WISH_BYTES_MAX ((size_t)4096)    /* a text message, which is not input */
#define BERTH_EVENT_BYTES_MAX (4 * BERTH_JSON_BYTES_MAX) /* one event that the CLI reads */

#define BERTH_TLS_FILE_BYTES_MAX (256 * 1024)      /* a chain of certificates, or a key */
#define BERTH_TLS_HANDSHAKE_BYTES_MAX (256 * 1024) /* received from one client */

#define BERTH_OPTIONS_BYTES_MAX (1024 * 1024) /* berthd.yaml */
#define BERTH_OPTION_BYTES_MAX 4096           /* one text in it */
#define BERTH_LISTEN_MAX 16                   /* TCP addresses */
#define BERTH_ALLOWED_HOSTS_MAX 64
#define BERTH_ALLOWED_ORIGINS_MAX 64
#define BERTH_HOST_BYTES_MAX 253 /* a name in the DNS */
#define BERTH_HOST_LABEL_BYTES_MAX 63
#define BERTH_CONNECTIONS_MIN 16
#define BERTH_CONNECTIONS_MAX 1000000
/* Descriptors that connections leave to the store, to children and to logs; half of all when the
 * process may have fewer than twice as many. */
#define BERTH_DESCRIPTORS_RESERVED 256
#define BERTH_LOG_BYTES_MAX (INT64_C(1) << 40) /* the log of one stream of a command */

/* Lines of one worker that are handled before the engine's thread turns to others. A turn of its
 * loop has up to four such portions. */
#define BERTH_WORKER_LINES_PER_TURN 8
#define BERTH_WORKER_METHODS_MAX 64      /* names in `supportedMethods` that are kept */
#define BERTH_WORKER_INITIALIZE_MS 15000 /* how long a worker may take to answer `initialize` */
/* How long a call waits for a worker that is being started: longer than a start may take. */
#define BERTH_WORKER_START_MS 20000
#define BERTH_WORKER_READY_MS 5000    /* how long a call waits for a worker that has crashed */
#define BERTH_PLUGIN_VARIABLES_MAX 64 /* of its worker, set by an operator */
#define BERTH_PLUGIN_VARIABLE_BYTES_MAX 4096 /* the value of one of them */
#define BERTH_WORKER_POLL_MS 100             /* how often the call checks whether it is ready */

#define BERTH_POOL_THREADS_MAX 16
#define BERTH_QUICK_THREADS_MAX 16     /* of the API, for requests that need only the store */
#define BERTH_PROVIDER_THREADS_MAX 192 /* calls that may wait for a provider at once */
#define BERTH_LOCAL_THREADS 16         /* of them for work without a provider */
#define BERTH_QUEUED_CALLS_MAX 16384   /* calls that wait for one of these threads */
#define BERTH_QUEUED_SHARE_MAX 4096    /* of one provider, and of one company */
/* Leases of one environment that owe clean-up; places that a provider lists beyond that are not
 * recorded before. */
#define BERTH_FOUND_PLACES_MAX 100
#define BERTH_PROVIDER_SWEEPS_MAX 16 /* environments of one provider swept at once */

#define BERTH_CAGE_START_MS 5000      /* until a program in a cage runs */
#define BERTH_CAGE_PROCESSES_MAX 1024 /* processes and threads */
#define BERTH_CAGE_SIGNALS_MAX 4096   /* that are queued */
#define BERTH_CAGE_FILES_MAX 4096     /* descriptors of a process; at most a quarter of berth's */
/* inotify instances and watches in a user namespace: of 128 and at least 8192 that a user has. */
#define BERTH_CAGE_WATCHERS_MAX "8"
#define BERTH_CAGE_WATCHES_MAX "512"
#define BERTH_ROOT_MOUNTS_MAX 128 /* files and directories in the root of a confined program */
#define BERTH_ROOT_SCRATCH_OPTIONS                                                                 \
    "mode=1777,size=1g,nr_inodes=100k"         /* of its /tmp, which is in memory */
#define BERTH_NPM_FILE_BYTES_MAX (1024 * 1024) /* npm's settings, and certificates for it */
#define BERTH_SOCKETS_MAX 16 /* Unix sockets that an operator lets one plugin use */

#define BERTH_TREE_PATH_BYTES_MAX 4095            /* a path below the root of a workspace */
#define BERTH_TREE_NAME_BYTES_MAX 255             /* one name of it */
#define BERTH_TREE_DEPTH_MAX 128                  /* names of one path */
#define BERTH_TREE_ENTRIES_MAX 2000000            /* files, directories and links of a workspace */
#define BERTH_TREE_BYTES_MAX (INT64_C(1) << 40)   /* of all its files */
#define BERTH_IGNORE_FILE_BYTES_MAX (1024 * 1024) /* a .gitignore or .berthignore */
#define BERTH_IGNORE_LINE_BYTES_MAX 4096
#define BERTH_IGNORE_RULES_MAX 100000 /* of one workspace */
/* One content that is compared by lines. */
#define BERTH_DIFF_BYTES_MAX ((size_t)4 * 1024 * 1024)
#define BERTH_DIFF_LINES_MAX 200000
/* The difference of a whole workspace: in an answer, and kept with a run. */
#define BERTH_WORKSPACE_DIFF_BYTES_MAX ((size_t)256 * 1024)
#define BERTH_RUN_DIFF_BYTES_MAX ((size_t)64 * 1024)

/* Logs of commands leave this much of their disk free, so that the ledger can still be written: a
 * part of it, but not more than these bytes. */
#define BERTH_LOG_RESERVE_PART 20
#define BERTH_LOG_RESERVE_BYTES_MAX (UINT64_C(256) * 1024 * 1024)

/* Streamed output that `berth plugin check` keeps of one command. */
#define BERTH_CHECK_STREAMED_BYTES_MAX ((size_t)16 * 1024 * 1024)

/* The longest time for one call about a place that an environment's config may ask for; its worker
 * may have normalised the config. */
#define BERTH_PLACE_CALL_MS_MAX (INT64_C(60) * 60 * 1000)
/* Places with the label of one lease that one clean-up ends, and how long it goes on with the next
 * one; the others stay owed. */
#define BERTH_LABEL_PLACES_MAX 16
#define BERTH_LABEL_MS_MAX 60000
/* How long a daemon that stops goes on after drainTimeout: until calls to places are cancelled, and
 * from then on until workers are killed. */
#define BERTH_STOP_CALLS_MS 10000
#define BERTH_STOP_WORKERS_MS 3000

/* What all cages together leave of the limits of berth's user, where they have no user of their
 * own; at most a quarter of a limit. A command takes two processes, and berthd some threads. */
#define BERTH_PROCESSES_RESERVED 256
#define BERTH_SIGNALS_RESERVED 1024 /* that are queued */
#endif
