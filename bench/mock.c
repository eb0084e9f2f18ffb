/* A model provider that costs next to nothing: OpenAI Chat Completions and Anthropic Messages, one process, one epoll loop.
 *
 *   mock -p PORT
 *
 * What it does is in the model's name, which may also stand in the path (`/mock-0-200-5/v1/chat/completions`), for gateways that
 * rename the model:
 *
 *   mock-<delay ms>-<chunks>-<interval ms>[-<bytes of text>]
 *
 * A path that ends in `/messages` is answered in Anthropic's format, any other in OpenAI's. With `"stream": true` the reply is
 * <chunks> pieces of text, <interval> apart, the first one after <delay>; without, it is about 1 KB of JSON after <delay>.
 *
 * It is an extension daemon, too: a GET is answered with its one provider, `chat`, which has no list of models.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* ------------------------------------------------------------------------------------------------ what it says, in each format */
#define TEXT_BYTES 560
#define CHAT_CHUNK "\"id\":\"chatcmpl-mock0000000000000000\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"gpt-4o-mini\","
#define CHAT_USAGE "\"usage\":{\"prompt_tokens\":11,\"completion_tokens\":200,\"total_tokens\":211"

static const char STREAM_HEAD[] =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n";

typedef struct {
    const char *before, *after; /* of the text of a whole reply */
    const char *events[12];     /* of a stream: the one with "t0000" in it is repeated, with a counter in its place */
    char *head, *piece, *tail;  /* the same as HTTP chunks, made at the start */
    size_t head_size, piece_size, tail_size, counter_at;
} Format;

static Format FORMATS[2] = {
    {.before = "{\"id\":\"chatcmpl-mock0000000000000000\",\"object\":\"chat.completion\",\"created\":1700000000,\"model\":\"gpt-4o-mini\","
               "\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"",
     .after = "\",\"refusal\":null},\"logprobs\":null,\"finish_reason\":\"stop\"}]," CHAT_USAGE
              ",\"prompt_tokens_details\":{\"cached_tokens\":0},\"completion_tokens_details\":{\"reasoning_tokens\":0}},"
              "\"service_tier\":\"default\",\"system_fingerprint\":\"fp_mock\"}",
     .events = {"data: {" CHAT_CHUNK "\"system_fingerprint\":\"fp_mock\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" t0000\"},"
                "\"logprobs\":null,\"finish_reason\":null}]}\n\n",
                "data: {" CHAT_CHUNK "\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
                "data: {" CHAT_CHUNK "\"choices\":[]," CHAT_USAGE "}}\n\n", "data: [DONE]\n\n"}},
    {.before = "{\"id\":\"msg_mock0000000000000000\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"claude-mock\","
               "\"content\":[{\"type\":\"text\",\"text\":\"",
     .after = "\"}],\"stop_reason\":\"end_turn\",\"stop_sequence\":null,\"usage\":{\"input_tokens\":11,\"output_tokens\":200,"
              "\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":0}}",
     .events = {"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_mock0000000000000000\","
                "\"type\":\"message\",\"role\":\"assistant\",\"model\":\"claude-mock\",\"content\":[],\"stop_reason\":null,"
                "\"stop_sequence\":null,\"usage\":{\"input_tokens\":11,\"output_tokens\":1}}}\n\n",
                "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\","
                "\"text\":\"\"}}\n\n",
                "event: ping\ndata: {\"type\":\"ping\"}\n\n",
                "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\","
                "\"text\":\" t0000\"}}\n\n",
                "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n",
                "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\",\"stop_sequence\":null},"
                "\"usage\":{\"output_tokens\":200}}\n\n",
                "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"}},
};

static void add_chunk(char **chunks, size_t *size, const char *data) {
    *chunks = realloc(*chunks, *size + strlen(data) + 32);
    *size += sprintf(*chunks + *size, "%zx\r\n%s\r\n", strlen(data), data);
}

static const char DAEMON[] =
    "{\"version\":\"mock\",\"providers\":[{\"id\":\"chat\",\"name\":\"Chat\",\"surfaces\":[\"chat_completions\"],\"has_oauth\":false,"
    "\"has_refresh\":false,\"credential\":\"none\"}],\"models\":[]}";

static void prepare(Format *format) {
    for (const char **event = format->events; *event; event++) {
        if (strstr(*event, " t0000")) {
            add_chunk(&format->piece, &format->piece_size, *event);
            format->counter_at = strstr(format->piece, " t0000") - format->piece + 2;
        } else if (format->piece) {
            add_chunk(&format->tail, &format->tail_size, *event);
        } else {
            add_chunk(&format->head, &format->head_size, *event);
        }
    }
    format->tail_size += sprintf(format->tail + format->tail_size, "0\r\n\r\n");
}

/* ------------------------------------------------------------------------------------------------ connections, and when each is due */
typedef struct {
    int fd;
    char *in, *out;
    size_t in_size, in_room, out_size, out_sent, out_room;
    enum { READING, REPLYING, STREAMING } state;
    Format *format;
    int delay, chunks, interval, text, sent;
    int waits_to_write, place; /* in the heap; -1 for none */
    double due;                /* ms */
} Conn;

static int loop;
static Conn **heap;
static int waiting, heap_room;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static void swap(int a, int b) {
    Conn *c = heap[a];
    heap[a] = heap[b];
    heap[b] = c;
    heap[a]->place = a;
    heap[b]->place = b;
}

static void rise(int i) {
    for (; i && heap[i]->due < heap[(i - 1) / 2]->due; i = (i - 1) / 2) swap(i, (i - 1) / 2);
}

static void sink(int i) {
    for (;;) {
        int child = 2 * i + 1, least = i;
        if (child < waiting && heap[child]->due < heap[least]->due) least = child;
        if (child + 1 < waiting && heap[child + 1]->due < heap[least]->due) least = child + 1;
        if (least == i) return;
        swap(i, least);
        i = least;
    }
}

static void wake_at(Conn *c, double due) {
    if (waiting == heap_room) heap = realloc(heap, (heap_room = heap_room ? heap_room * 2 : 1024) * sizeof *heap);
    c->due = due;
    heap[c->place = waiting] = c;
    rise(waiting++);
}

static void forget(Conn *c) {
    int i = c->place;
    if (i < 0) return;
    if (i != --waiting) {
        heap[i] = heap[waiting];
        heap[i]->place = i;
        rise(i);
        sink(heap[i]->place);
    }
    c->place = -1;
}

static void end(Conn *c) {
    forget(c);
    close(c->fd);
    free(c->in);
    free(c->out);
    free(c);
}

/* ------------------------------------------------------------------------------------------------ writing */
static void add(Conn *c, const char *data, size_t size) {
    if (c->out_sent == c->out_size) c->out_sent = c->out_size = 0;
    if (c->out_size + size > c->out_room) c->out = realloc(c->out, c->out_room = (c->out_size + size) * 2);
    memcpy(c->out + c->out_size, data, size);
    c->out_size += size;
}

static void watch(Conn *c, int writing) {
    struct epoll_event e = {.events = EPOLLIN | (writing ? EPOLLOUT : 0), .data.ptr = c};
    if (writing != c->waits_to_write) epoll_ctl(loop, EPOLL_CTL_MOD, c->fd, &e);
    c->waits_to_write = writing;
}

static int flush(Conn *c) {
    while (c->out_sent < c->out_size) {
        ssize_t sent = send(c->fd, c->out + c->out_sent, c->out_size - c->out_sent, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN) return -1;
        if (sent < 0) return watch(c, 1), 0;
        c->out_sent += sent;
    }
    watch(c, 0);
    return 0;
}

static int reply(Conn *c) {
    static char text[1 << 20], head[256];
    if (!text[0]) memset(text, 'x', sizeof text);
    size_t size = c->text > 0 && c->text < (int)sizeof text ? c->text : TEXT_BYTES;
    size_t before = strlen(c->format->before), after = strlen(c->format->after);
    int n = sprintf(head, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %zu\r\nx-request-id: req_mock\r\n\r\n",
                    before + size + after);
    add(c, head, n);
    add(c, c->format->before, before);
    add(c, text, size);
    add(c, c->format->after, after);
    c->state = READING;
    return flush(c);
}

static int tell(Conn *c) {
    char head[128];
    add(c, head, sprintf(head, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n", sizeof DAEMON - 1));
    add(c, DAEMON, sizeof DAEMON - 1);
    return flush(c);
}

/* The counter differs in every piece: LiteLLM ends a stream of 100 equal ones. */
static int say(Conn *c) {
    Format *format = c->format;
    char *counter = format->piece + format->counter_at;
    if (!c->sent) {
        add(c, STREAM_HEAD, sizeof STREAM_HEAD - 1);
        add(c, format->head, format->head_size);
    }
    for (int n = c->sent, i = 3; i >= 0; i--, n /= 10) counter[i] = '0' + n % 10;
    add(c, format->piece, format->piece_size);
    if (++c->sent >= c->chunks) {
        add(c, format->tail, format->tail_size);
        c->state = READING;
    }
    return flush(c);
}

static int go_on(Conn *c) {
    if (c->state == REPLYING) return reply(c);
    do {
        if (say(c) < 0) return -1;
    } while (c->state == STREAMING && !c->interval);
    if (c->state == STREAMING) wake_at(c, (c->due > 0 ? c->due : now()) + c->interval);
    return 0;
}

/* ------------------------------------------------------------------------------------------------ reading */
static char *find(char *body, size_t size, const char *what) { /* in its first and last 2 KB: bodies may be large */
    char *found = memmem(body, size < 2048 ? size : 2048, what, strlen(what));
    if (found || size <= 2048) return found;
    size_t tail = size < 4096 ? size - 2048 : 2048;
    return memmem(body + size - tail, tail, what, strlen(what));
}

/* The bytes of a chunked body with its framing, or 0 while it is not whole; the data of the chunks is joined at its start. */
static size_t unchunk(char *body, size_t size, size_t *joined) {
    size_t at = 0, to = 0;
    for (int moving = 0; moving < 2; moving++) {
        for (at = 0;;) {
            char *line_end = memmem(body + at, size - at, "\r\n", 2);
            if (!line_end) return 0;
            size_t length = strtoul(body + at, 0, 16), data = line_end - body + 2;
            if (data + length + 2 > size) return 0;
            if (!length) break;
            if (moving) memmove(body + to, body + data, length), to += length;
            at = data + length + 2;
        }
    }
    *joined = to;
    return (char *)memmem(body + at, size - at, "\r\n", 2) - body + 4;
}

static void understand(Conn *c, char *head, size_t head_size, char *body, size_t body_size) {
    char *line_end = memchr(head, '\n', head_size), token[64] = "", *end = body + body_size;
    char *model = find(body, body_size, "mock-");
    if (!model) model = memmem(head, (end = line_end) - head, "mock-", 5);
    if (model) snprintf(token, sizeof token, "%.*s", (int)(end - model < 63 ? end - model : 63), model);
    c->delay = c->chunks = c->interval = c->text = c->sent = 0;
    sscanf(token, "mock-%d-%d-%d-%d", &c->delay, &c->chunks, &c->interval, &c->text);
    c->format = &FORMATS[memmem(head, line_end - head, "/messages ", 10) != 0];
    int stream = find(body, body_size, "\"stream\":true") || find(body, body_size, "\"stream\": true");
    c->state = stream ? STREAMING : REPLYING;
}

static int answer(Conn *c) {
    while (c->state == READING && c->in_size) {
        char *head_end = memmem(c->in, c->in_size, "\r\n\r\n", 4);
        if (!head_end) return 0;
        *head_end = 0;
        char *length = strcasestr(c->in, "\r\ncontent-length:"), *chunked = strcasestr(c->in, "\r\ntransfer-encoding: chunked");
        *head_end = '\r';
        size_t head = head_end - c->in + 4, body = length ? strtoul(length + 17, 0, 10) : 0, whole = head + body;
        if (!length && chunked) {
            size_t framed = unchunk(c->in + head, c->in_size - head, &body);
            if (!framed) return 0;
            whole = head + framed;
        }
        if (c->in_size < whole) {
            if (c->in_room < whole + 1) c->in = realloc(c->in, c->in_room = whole + 4096);
            return 0;
        }
        int get = !memcmp(c->in, "GET ", 4);
        understand(c, c->in, head, c->in + head, body);
        memmove(c->in, c->in + whole, c->in_size -= whole);
        if (get) {
            c->state = READING;
            if (tell(c) < 0) return -1;
            continue;
        }
        c->due = 0;
        if (c->delay > 0) return wake_at(c, now() + c->delay), 0;
        if (go_on(c) < 0) return -1;
    }
    return 0;
}

static int receive(Conn *c) {
    for (;;) {
        if (c->in_room - c->in_size < 4096) c->in = realloc(c->in, c->in_room *= 2);
        size_t room = c->in_room - c->in_size - 1;
        ssize_t got = recv(c->fd, c->in + c->in_size, room, 0);
        if (!got || (got < 0 && errno != EAGAIN)) return -1;
        if (got > 0) c->in_size += got;
        if (got < (ssize_t)room) return answer(c);
    }
}

/* ------------------------------------------------------------------------------------------------ the loop */
static void welcome(int listener) {
    int fd, one = 1;
    while ((fd = accept4(listener, 0, 0, SOCK_NONBLOCK)) >= 0) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        Conn *c = calloc(1, sizeof *c);
        *c = (Conn){.fd = fd, .place = -1, .in_room = 8192, .in = malloc(8192)};
        struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
        epoll_ctl(loop, EPOLL_CTL_ADD, fd, &e);
    }
}

static void serve(int port) {
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), one = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(listener, (void *)&address, sizeof address) || listen(listener, 4096)) perror("mock"), exit(1);
    loop = epoll_create1(0);
    struct epoll_event accepting = {.events = EPOLLIN, .data.ptr = 0}, events[512];
    epoll_ctl(loop, EPOLL_CTL_ADD, listener, &accepting);
    for (;;) {
        double left = waiting ? heap[0]->due - now() : 0;
        int n = epoll_wait(loop, events, 512, !waiting ? -1 : left <= 0 ? 0 : (int)(left + 0.999));
        for (int i = 0; i < n; i++) {
            Conn *c = events[i].data.ptr;
            if (!c) {
                welcome(listener);
                continue;
            }
            int dead = events[i].events & EPOLLOUT ? flush(c) : 0;
            if (!dead && events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) dead = receive(c);
            if (dead) end(c);
        }
        for (double t = now(); waiting && heap[0]->due <= t;) {
            Conn *c = heap[0];
            forget(c);
            if (go_on(c) < 0 || answer(c) < 0) end(c);
        }
    }
}

int main(int argc, char **argv) {
    int port = 9001;
    for (int option; (option = getopt(argc, argv, "p:")) > 0;)
        if (option == 'p') port = atoi(optarg);
    signal(SIGPIPE, SIG_IGN);
    prepare(&FORMATS[0]);
    prepare(&FORMATS[1]);
    serve(port);
}
