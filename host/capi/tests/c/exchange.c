/* DLPack in and out: every deleter runs once, whatever happens. */
#include "check.h"

static int deleted;
static float numbers[6] = {0, 1, 2, 3, 4, 5};

typedef struct versioned {
    DLManagedTensorVersioned managed;
    int64_t shape[2], strides[2];
} versioned;

typedef struct legacy {
    DLManagedTensor managed;
    int64_t shape[2];
} legacy;

static void delete_versioned(DLManagedTensorVersioned *self) {
    deleted++;
    free(self->manager_ctx);
}

static void delete_legacy(DLManagedTensor *self) {
    deleted++;
    free(self->manager_ctx);
}

static DLTensor tensor_of(int64_t *shape, int64_t *strides) {
    DLTensor tensor = {numbers, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, NULL, NULL, 0};
    shape[0] = 2;
    shape[1] = 3;
    tensor.shape = shape;
    tensor.strides = strides;
    return tensor;
}

static versioned *make(void) {
    versioned *made = (versioned *)calloc(1, sizeof *made);
    CHECK(made);
    made->strides[0] = 3;
    made->strides[1] = 1;
    made->managed.version.major = 1;
    made->managed.version.minor = 3;
    made->managed.manager_ctx = made;
    made->managed.deleter = delete_versioned;
    made->managed.dl_tensor = tensor_of(made->shape, made->strides);
    return made;
}

static legacy *make_legacy(void) {
    legacy *made = (legacy *)calloc(1, sizeof *made);
    CHECK(made);
    made->managed.manager_ctx = made;
    made->managed.deleter = delete_legacy;
    made->managed.dl_tensor = tensor_of(made->shape, NULL);
    return made;
}

static void in_and_out(const xd_runtime *runtime) {
    xd_tensor *tensor = NULL, *again = NULL;
    DLManagedTensorVersioned *managed = NULL;
    xd_tensor_info info;
    deleted = 0;
    OK(xd_tensor_import(runtime, &make()->managed, NULL, &tensor));
    OK(xd_tensor_describe(tensor, &info));
    CHECK(info.ndim == 2 && info.shape[0] == 2 && info.shape[1] == 3 && info.strides[0] == 3);
    CHECK(info.data == (uint64_t)(uintptr_t)numbers && info.byte_offset == 0);
    CHECK(info.nbytes == sizeof numbers && info.numel == 6 && info.contiguous && !info.read_only);
    CHECK(info.device.device_type == kDLCPU && info.form == XD_ADDRESS_POINTER);
    check_has_numbers(tensor, 6);
    OK(xd_tensor_export(tensor, NULL, &managed));
    CHECK(managed->version.major == 1 && managed->flags == 0);
    CHECK(managed->dl_tensor.data == numbers && managed->dl_tensor.strides[1] == 1);
    /* Our own export comes back as the same tensor. */
    OK(xd_tensor_import(runtime, managed, NULL, &again));
    OK(xd_tensor_export(again, NULL, &managed));
    xd_tensor_free(tensor);
    xd_tensor_free(again);
    CHECK(deleted == 0);
    managed->deleter(managed);
    CHECK(deleted == 1);
}

static void legacy_in_and_out(const xd_runtime *runtime, const xd_device *cpu) {
    xd_tensor *tensor = NULL, *own = check_numbers(cpu, 3);
    DLManagedTensor *managed = NULL;
    xd_tensor_info info;
    deleted = 0;
    OK(xd_tensor_import_legacy(runtime, &make_legacy()->managed, NULL, &tensor));
    OK(xd_tensor_describe(tensor, &info));
    CHECK(info.read_only && info.strides[0] == 3);
    FAILS(XD_ERROR_EXCHANGE, XD_INVALID, xd_tensor_export_legacy(tensor, NULL, &managed));
    FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_tensor_write(tensor, numbers, sizeof numbers));
    CHECK(!managed && deleted == 0);
    xd_tensor_free(tensor);
    CHECK(deleted == 1);
    OK(xd_tensor_export_legacy(own, NULL, &managed));
    xd_tensor_free(own);
    CHECK(((float *)managed->dl_tensor.data)[2] == 2);
    managed->deleter(managed);
}

static void refused_tensors_are_deleted_once(const xd_runtime *runtime) {
    xd_tensor *tensor = NULL;
    int wrong;
    for (wrong = 0; wrong < 11; wrong++) {
        versioned *made = make();
        DLTensor *inner = &made->managed.dl_tensor;
        uint32_t kind = XD_ERROR_EXCHANGE;
        xd_status status = XD_INVALID;
        switch (wrong) {
        case 0: made->managed.version.major = 2; break;
        case 1: inner->ndim = -1; break;
        case 2: inner->ndim = 65; break;
        case 3: made->shape[0] = -2; break;
        case 4: made->shape[0] = INT64_MAX; break;
        case 5: inner->shape = NULL; break;
        case 6: inner->data = NULL; break;
        case 7: inner->dtype.bits = 33; break;
        case 8: inner->dtype.lanes = 0; break;
        case 9: made->strides[0] = INT64_MAX; break;
        default:
            inner->device.device_type = kDLMetal;
            kind = XD_ERROR_UNKNOWN_DEVICE;
            status = XD_NO_DEVICE;
        }
        deleted = 0;
        FAILS(kind, status, xd_tensor_import(runtime, &made->managed, NULL, &tensor));
        CHECK(deleted == 1 && !tensor);
    }
    deleted = 0;
    FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_tensor_import(NULL, &make()->managed, NULL, &tensor));
    FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_tensor_import(runtime, &make()->managed, NULL, NULL));
    FAILS(XD_ERROR_MISUSE, XD_INVALID,
          xd_tensor_import_legacy(NULL, &make_legacy()->managed, NULL, NULL));
    CHECK(deleted == 3 && !tensor);
}

static void a_tensor_needs_no_deleter(const xd_runtime *runtime) {
    versioned *made = make();
    xd_tensor *tensor = NULL;
    made->managed.deleter = NULL;
    OK(xd_tensor_import(runtime, &made->managed, NULL, &tensor));
    xd_tensor_free(tensor);
    free(made);
}

static void flags_and_orders(const xd_device *cpu) {
    xd_tensor *tensor = check_numbers(cpu, 4);
    xd_export_options options = {sizeof options, XD_EXPORT_IS_COPIED, XD_ORDER_UNORDERED, NULL};
    DLManagedTensorVersioned *managed = NULL;
    xd_stream *stream = NULL;
    OK(xd_tensor_export(tensor, &options, &managed));
    CHECK(managed->flags == DLPACK_FLAG_BITMASK_IS_COPIED);
    managed->deleter(managed);
    managed = NULL;
    options.order = XD_ORDER_STREAM;
    REFUSED_FOR("needs a stream, and there is none", xd_tensor_export(tensor, &options, &managed));
    OK(xd_stream_create(cpu, &stream));
    options.stream = stream;
    options.order = XD_ORDER_READY;
    REFUSED_FOR("order 0 takes none", xd_tensor_export(tensor, &options, &managed));
    options.order = XD_ORDER_STREAM;
    OK(xd_tensor_export(tensor, &options, &managed));
    managed->deleter(managed);
    managed = NULL;
    options.order = 77;
    REFUSED_FOR("order 77 is unknown", xd_tensor_export(tensor, &options, &managed));
    options.order = XD_ORDER_STREAM;
    options.flags = 8;
    FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_tensor_export(tensor, &options, &managed));
    CHECK(!managed);
    xd_stream_free(stream);
    xd_tensor_free(tensor);
}

static void empty_tensors(const xd_runtime *runtime) {
    versioned *made = make();
    xd_tensor *tensor = NULL;
    xd_tensor_info info;
    DLManagedTensorVersioned *managed = NULL;
    made->shape[1] = 0;
    made->managed.dl_tensor.data = NULL;
    OK(xd_tensor_import(runtime, &made->managed, NULL, &tensor));
    OK(xd_tensor_describe(tensor, &info));
    CHECK(info.data == 0 && info.numel == 0 && info.nbytes == 0);
    OK(xd_tensor_read(tensor, NULL, 0));
    OK(xd_tensor_write(tensor, NULL, 0));
    OK(xd_tensor_export(tensor, NULL, &managed));
    CHECK(!managed->dl_tensor.data);
    managed->deleter(managed);
    xd_tensor_free(tensor);
}

/* Behind the producer's stream, and where it is wanted, in one call. */
static void options_of_an_import(const xd_runtime *runtime, const xd_device *cpu) {
    xd_import_options options = {sizeof options, NULL, NULL, XD_COPY_IF_NEEDED, 0};
    DLManagedTensorVersioned *managed = NULL;
    xd_stream *stream = NULL;
    xd_event *host_event = NULL;
    xd_tensor *tensor = NULL;
    xd_tensor_info info;
    deleted = 0;
    OK(xd_stream_create(cpu, &stream));
    OK(xd_event_create_host(cpu, &host_event));
    OK(xd_stream_wait(stream, host_event, NULL));
    options.stream = stream;
    OK(xd_tensor_import(runtime, &make()->managed, &options, &tensor));
    OK(xd_tensor_try_export(tensor, &managed));
    CHECK(!managed);
    OK(xd_event_complete(host_event, XD_OK));
    OK(xd_tensor_synchronize(tensor, XD_NO_LIMIT));
    xd_tensor_free(tensor);
    CHECK(deleted == 1);
    /* A copy of one's own: the producer's memory is given back when the copy is done. */
    options.copy = XD_COPY_ALWAYS;
    OK(xd_tensor_import_legacy(runtime, &make_legacy()->managed, &options, &tensor));
    OK(xd_runtime_wait_for_releases(runtime, XD_NO_LIMIT));
    OK(xd_tensor_describe(tensor, &info));
    CHECK(deleted == 2 && info.data != (uintptr_t)numbers && !info.read_only);
    xd_tensor_free(tensor);
    options.stream = NULL;
    options.device = cpu;
    options.copy = XD_COPY_NEVER;
    OK(xd_tensor_import(runtime, &make()->managed, &options, &tensor));
    OK(xd_tensor_describe(tensor, &info));
    CHECK(deleted == 2 && info.data == (uintptr_t)numbers);
    xd_tensor_free(tensor);
    /* It is taken whatever the result. */
    options.copy = 9;
    tensor = NULL;
    FAILS(XD_ERROR_MISUSE, XD_INVALID,
          xd_tensor_import(runtime, &make()->managed, &options, &tensor));
    CHECK(!tensor && deleted == 4);
    xd_event_free(host_event);
    xd_stream_free(stream);
}

/* Memory of a kind, and in the order of a stream. */
static void options_of_an_empty(const xd_device *cpu) {
    xd_empty_options options = {sizeof options, XD_MEMORY_PINNED, 0, NULL};
    const int64_t shape[] = {4};
    xd_layout layout = check_layout(1, shape);
    xd_stream *stream = NULL;
    xd_tensor *tensor = NULL;
    xd_tensor_info info;
    OK(xd_tensor_empty(cpu, &layout, &options, &tensor));
    OK(xd_tensor_describe(tensor, &info));
    CHECK(info.memory_kind == XD_MEMORY_PINNED);
    xd_tensor_free(tensor);
    tensor = NULL;
    OK(xd_stream_create(cpu, &stream));
    options.stream = stream;
    FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_tensor_empty(cpu, &layout, &options, &tensor));
    options.kind = 0;
    OK(xd_tensor_empty(cpu, &layout, &options, &tensor));
    OK(xd_tensor_fill(tensor, numbers, sizeof *numbers, stream));
    xd_tensor_free(tensor);
    tensor = NULL;
    options.stream = NULL;
    options.kind = XD_MEMORY_MANAGED;
    FAILS(XD_ERROR_HOOK, XD_UNSUPPORTED, xd_tensor_empty(cpu, &layout, &options, &tensor));
    options.kind = XD_MEMORY_HOST;
    FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_tensor_empty(cpu, &layout, &options, &tensor));
    CHECK(!tensor);
    xd_stream_free(stream);
}

int main(int argc, char **argv) {
    xd_runtime *runtime = check_runtime(argc, argv);
    xd_device *cpu = check_device(runtime, "cpu");
    in_and_out(runtime);
    legacy_in_and_out(runtime, cpu);
    refused_tensors_are_deleted_once(runtime);
    a_tensor_needs_no_deleter(runtime);
    flags_and_orders(cpu);
    empty_tensors(runtime);
    options_of_an_import(runtime, cpu);
    options_of_an_empty(cpu);
    xd_device_free(cpu);
    xd_runtime_free(runtime);
    return 0;
}
