// Plays words on an arena, as the native player does, in a process of its own. Arena and shared words are files that
// both sides map:
//   play ARENA WORDS SHARED COMMIT TIMES THREADS
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

void tg_run(float* arena, const int* words, long long count, long long commit, int times, void* shared, int thread,
            int threads);

static void* arena;
static void* words;
static void* shared;
static long long count, commit;
static int times, threads;

static void* file(const char* path, long long* bytes) {
  struct stat about;
  int descriptor = open(path, O_RDWR);
  if (descriptor < 0 || fstat(descriptor, &about) != 0) exit(2);
  *bytes = about.st_size;
  void* memory = mmap(NULL, about.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (memory == MAP_FAILED) exit(2);
  return memory;
}

static void* part(void* number) {
  tg_run(arena, words, count, commit, times, shared, (int)(size_t)number, threads);
  return NULL;
}

int main(int given, char** argument) {
  if (given != 7) return 2;
  long long bytes;
  arena = file(argument[1], &bytes);
  shared = file(argument[3], &bytes);
  words = file(argument[2], &bytes);
  count = bytes / 4;
  commit = atoll(argument[4]);
  times = atoi(argument[5]);
  threads = atoi(argument[6]);
  pthread_t team[64];
  for (size_t i = 0; i < (size_t)threads; i++)
    if (pthread_create(&team[i], NULL, part, (void*)i) != 0) return 2;
  for (int i = 0; i < threads; i++) pthread_join(team[i], NULL);
  return 0;
}
