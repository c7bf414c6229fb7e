/**
 * \file vendors.c
 * \brief Two vendors in one process. With `race`, work of both on the same bytes, which nothing orders; with `mended`,
 *        the same in order; with `apart`, what each vendor refuses of the other's; with `freed`, memory that is freed
 *        while the other has it registered (`reset`: and that ends its devices then); with `given_up`, a registration that ends under work of its own vendor. CUDA's functions are declared as integers.
 */
#include "hip.h"

#include <unistd.h>

enum { SIZE = 4096, INVALID_VALUE = 1 };

int cuInit(unsigned), cuCtxCreate_v2(uint64_t *, unsigned, int), cuMemAlloc_v2(uint64_t *, size_t), cuMemFree_v2(uint64_t);
int cuMemcpyHtoD_v2(uint64_t, const void *, size_t), cuMemcpyDtoHAsync_v2(void *, uint64_t, size_t, uint64_t);
int cuStreamCreate(uint64_t *, unsigned), cuStreamSynchronize(uint64_t), cuStreamQuery(uint64_t);
int cuStreamDestroy_v2(uint64_t), cuEventQuery(uint64_t), cuMemHostRegister_v2(void *, size_t, unsigned);
int cuMemHostUnregister(void *), cuMemHostAlloc(void **, size_t, unsigned), cuMemFreeHost(void *);
int cuPointerGetAttribute(void *, int, uint64_t), cuMemcpy(uint64_t, uint64_t, size_t);

static uint64_t of_cuda, cuda_stream;
static void *of_hip;
static hipStream_t hip_stream;

static void begin(void) {
    static char sevens[SIZE];
    uint64_t context;
    OK(cuInit(0));
    OK(cuCtxCreate_v2(&context, 0, 0));
    OK(cuMemAlloc_v2(&of_cuda, SIZE));
    memset(sevens, 7, SIZE);
    OK(cuMemcpyHtoD_v2(of_cuda, sevens, SIZE));
    OK(cuStreamCreate(&cuda_stream, 1));
    OK(hipMalloc(&of_hip, SIZE));
    OK(hipStreamCreateWithFlags(&hip_stream, hipStreamNonBlocking));
}

static void end(void) {
    OK(cuStreamDestroy_v2(cuda_stream));
    OK(cuMemFree_v2(of_cuda));
    OK(hipStreamDestroy(hip_stream));
    OK(hipFree(of_hip));
}

/* Memory of the host that both have registered. */
static void exchange(int is_mended) {
    char *both = aligned_alloc(4096, SIZE), back = 0;
    OK(cuMemHostRegister_v2(both, SIZE, 0));
    OK(hipHostRegister(both, SIZE, 0));
    OK(cuMemcpyDtoHAsync_v2(both, of_cuda, SIZE, cuda_stream));
    if (is_mended) {
        OK(cuStreamSynchronize(cuda_stream));
    }
    OK(hipMemcpyAsync(of_hip, both, SIZE, hipMemcpyHostToDevice, hip_stream));
    OK(hipStreamSynchronize(hip_stream));
    OK(cuStreamSynchronize(cuda_stream));
    OK(hipMemcpy(&back, of_hip, 1, hipMemcpyDeviceToHost));
    CHECK(!is_mended || back == 7);
    OK(hipHostUnregister(both));
    OK(cuMemHostUnregister(both));
    free(both);
}

static void each_refuses_what_is_the_others(void) {
    static char own[SIZE];
    void *pinned;
    unsigned type;
    hipPointerAttribute_t told;
    hipEvent_t event;
    GIVES(INVALID_VALUE, hipMemcpy((void *)of_cuda, own, SIZE, hipMemcpyHostToDevice));
    GIVES(INVALID_VALUE, hipMemcpy(own, (void *)of_cuda, SIZE, hipMemcpyDefault));
    GIVES(INVALID_VALUE, hipMemset((void *)of_cuda, 0, SIZE));
    GIVES(INVALID_VALUE, hipFree((void *)of_cuda));
    OK(hipPointerGetAttributes(&told, (void *)of_cuda));
    CHECK(told.type == hipMemoryTypeUnregistered);
    GIVES(INVALID_VALUE, cuMemcpyHtoD_v2((uint64_t)of_hip, own, SIZE));
    GIVES(INVALID_VALUE, cuMemcpy((uint64_t)of_hip, (uint64_t)own, SIZE));
    GIVES(INVALID_VALUE, cuMemFree_v2((uint64_t)of_hip));
    GIVES(INVALID_VALUE, cuPointerGetAttribute(&type, 2, (uint64_t)of_hip));
    GIVES(hipErrorContextIsDestroyed, hipStreamQuery((hipStream_t)cuda_stream));
    GIVES(hipErrorContextIsDestroyed, hipStreamDestroy((hipStream_t)cuda_stream));
    GIVES(hipErrorInvalidHandle, cuStreamQuery((uint64_t)hip_stream));
    GIVES(hipErrorInvalidHandle, cuStreamDestroy_v2((uint64_t)hip_stream));
    OK(hipEventCreate(&event));
    GIVES(hipErrorInvalidHandle, cuEventQuery((uint64_t)event));
    OK(hipEventDestroy(event));
    /* What one has pinned is the host's own to the other. */
    OK(cuMemHostAlloc(&pinned, SIZE, 0));
    memset(pinned, 9, SIZE);
    OK(hipPointerGetAttributes(&told, pinned));
    CHECK(told.type == hipMemoryTypeUnregistered);
    GIVES(INVALID_VALUE, hipHostFree(pinned));
    OK(hipMemcpy(of_hip, pinned, SIZE, hipMemcpyHostToDevice));
    OK(hipMemcpy(own, of_hip, SIZE, hipMemcpyDeviceToHost));
    CHECK(own[0] == 9 && own[SIZE - 1] == 9);
    /* So it can register it, and copies of it no longer wait. */
    OK(hipHostRegister(pinned, SIZE, 0));
    OK(hipPointerGetAttributes(&told, pinned));
    CHECK(told.type == hipMemoryTypeHost);
    OK(hipMemcpyAsync(pinned, of_hip, SIZE, hipMemcpyDeviceToHost, hip_stream));
    OK(hipStreamSynchronize(hip_stream));
    /* Work of the one goes on while the other gives up its own registration. */
    OK(cuMemcpyDtoHAsync_v2(pinned, of_cuda, SIZE, cuda_stream));
    OK(hipHostUnregister(pinned));
    OK(cuStreamSynchronize(cuda_stream));
    OK(hipPointerGetAttributes(&told, pinned));
    CHECK(told.type == hipMemoryTypeUnregistered);
    OK(cuMemFreeHost(pinned));
}

/* A vendor gives up its registration under its own work. */
static void gives_up_what_it_still_uses(void) {
    void *pinned;
    OK(cuMemHostAlloc(&pinned, SIZE, 0));
    OK(hipHostRegister(pinned, SIZE, 0));
    OK(hipMemcpyAsync(pinned, of_hip, SIZE, hipMemcpyDeviceToHost, hip_stream));
    OK(hipHostUnregister(pinned));
    OK(hipStreamSynchronize(hip_stream));
    OK(cuMemFreeHost(pinned));
}

/* Memory that one frees while the other has it registered. */
static void frees_what_the_other_has_registered(void) {
    void *pinned;
    OK(hipHostMalloc(&pinned, SIZE, 0));
    OK(cuMemHostRegister_v2(pinned, SIZE, 0));
    OK(hipHostFree(pinned));
}

/* The same, and the other ends all that it has there: what is over is not ended once more. */
static void frees_and_resets(void) {
    void *pinned;
    OK(cuMemHostAlloc(&pinned, SIZE, 0));
    OK(hipHostRegister(pinned, SIZE, 0));
    OK(cuMemFreeHost(pinned));
    OK(hipDeviceReset());
    OK(cuStreamDestroy_v2(cuda_stream));
    OK(cuMemFree_v2(of_cuda));
}

int main(int count, char **words) {
    CHECK(count == 2);
    begin();
    if (!strcmp(words[1], "apart")) {
        each_refuses_what_is_the_others();
    } else if (!strcmp(words[1], "freed")) {
        frees_what_the_other_has_registered();
    } else if (!strcmp(words[1], "reset")) {
        frees_and_resets();
        return 0;
    } else if (!strcmp(words[1], "given_up")) {
        gives_up_what_it_still_uses();
    } else {
        exchange(!strcmp(words[1], "mended"));
    }
    end();
    return 0;
}
