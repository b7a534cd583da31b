/* A network link that delays every packet and loses some, between two network namespaces: a network device "wire" in each, of
 * which it reads what is sent and writes it to the other. As the kernel's netem does, which many kernels lack. Which packets
 * are lost, counted in each direction, is the same in every run. Until SIGTERM; then it says what it passed and lost.
 *
 *   bad_link MILLISECONDS PERCENT OTHER_NAMESPACE   (a file: /proc/PID/ns/net) */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { most_bytes = 2048, most_packets = 4096 };

typedef struct packet {
  int64_t due; /* in microseconds */
  ssize_t bytes;
  char data[most_bytes];
} packet;

/* Packets under way; all take as long, so that they leave in the order in which they came. */
typedef struct direction {
  packet *packets;
  unsigned first, count;
  uint64_t random;
  long passed, lost;
} direction;

static volatile sig_atomic_t ended;

static void end(int signal) {
  (void)signal;
  ended = 1;
}

static void need(int good, const char *what) {
  if (good) return;
  perror(what);
  exit(1);
}

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000 + time.tv_nsec / 1000;
}

static int open_device(void) {
  struct ifreq request;
  const int device = open("/dev/net/tun", O_RDWR | O_NONBLOCK);
  need(device >= 0, "/dev/net/tun");
  memset(&request, 0, sizeof request);
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  strcpy(request.ifr_name, "wire");
  need(ioctl(device, TUNSETIFF, &request) == 0, "TUNSETIFF");
  return device;
}

/* xorshift64*, in percent. */
static double random_percent(uint64_t *state) {
  *state ^= *state >> 12;
  *state ^= *state << 25;
  *state ^= *state >> 27;
  return (double)((*state * 0x2545f4914f6cdd1du) >> 40) * 0x1p-24 * 100;
}

/* A queue that is full loses packets too, as a router's does. */
static void take(int device, direction *to, int64_t delay, double percent) {
  for (;;) {
    packet *last = &to->packets[(to->first + to->count) % most_packets];
    char nowhere[most_bytes];
    const int full = to->count == most_packets;
    const ssize_t bytes = read(device, full ? nowhere : last->data, most_bytes);
    if (bytes <= 0) return;
    if (full || random_percent(&to->random) < percent) {
      ++to->lost;
      continue;
    }
    last->bytes = bytes;
    last->due = now() + delay;
    ++to->count;
  }
}

static void give(int device, direction *from) {
  const int64_t time = now();
  while (from->count > 0 && from->packets[from->first].due <= time) {
    const packet *first = &from->packets[from->first];
    if (write(device, first->data, (size_t)first->bytes) == first->bytes) ++from->passed;
    from->first = (from->first + 1) % most_packets;
    --from->count;
  }
}

int main(int argc, char **argv) {
  struct pollfd devices[2];
  direction directions[2];
  struct sigaction action;
  int64_t delay;
  double percent;
  int other, i;
  if (argc != 4) return 2;
  delay = (int64_t)(atof(argv[1]) * 1000);
  percent = atof(argv[2]);
  memset(&action, 0, sizeof action);
  action.sa_handler = end;
  need(sigaction(SIGTERM, &action, NULL) == 0, "sigaction");
  for (i = 0; i < 2; ++i) {
    if (i == 1) {
      other = open(argv[3], O_RDONLY | O_CLOEXEC);
      need(other >= 0 && setns(other, CLONE_NEWNET) == 0, argv[3]);
    }
    devices[i].fd = open_device();
    devices[i].events = POLLIN;
    memset(&directions[i], 0, sizeof directions[i]);
    directions[i].random = 0x9e3779b97f4a7c15u + (uint64_t)i;
    directions[i].packets = malloc(most_packets * sizeof(packet));
    need(directions[i].packets != NULL, "malloc");
  }
  while (!ended) {
    const int waits = directions[0].count + directions[1].count > 0 ? 1 : 100;
    poll(devices, 2, waits);
    for (i = 0; i < 2; ++i) {
      take(devices[i].fd, &directions[i], delay, percent);
      give(devices[1 - i].fd, &directions[i]);
    }
  }
  fprintf(stderr, "link: %ld and %ld packets passed, %ld and %ld lost\n", directions[0].passed, directions[1].passed,
          directions[0].lost, directions[1].lost);
  return 0;
}
