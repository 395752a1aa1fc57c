/* FP8 attention for NVIDIA Ada (L4): O = softmax(scale · Q Kᵀ) V.
 *
 * A request is prepared once with wpa_create, in the CUDA context that is current in the calling thread, and then runs on
 * any stream of that context with wpa_run. A run allocates nothing and waits for nothing; it can be captured into a graph.
 * All functions may be called from several threads; runs that may overlap need a workspace each.
 *
 * Devices: sm_89 with a driver of CUDA 12.0 or later; newer devices with a driver of CUDA 12.4 or later. */
#ifndef WARPPROOF_ATTENTION_H
#define WARPPROOF_ATTENTION_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WPA_VERSION 1

typedef enum {
    WPA_OK = 0,
    WPA_INVALID = 1,     /* the request contradicts itself, or an argument does not fit it */
    WPA_UNSUPPORTED = 2, /* a valid request that the library or the device has no kernel for */
    WPA_DRIVER = 3,      /* the driver is missing, too old, or rejected a call */
    WPA_INTERNAL = 4     /* a bug in the library */
} wpa_status;

/* Types of Q, K and V: codes with scales, or values, which each run quantizes to e4m3. */
enum { WPA_E4M3 = 0, WPA_E5M2 = 1, WPA_VALUES_F16 = 2, WPA_VALUES_BF16 = 3 };
/* Types of O. */
enum { WPA_O_F16 = 0, WPA_O_BF16 = 1 };
/* Which elements share a scale: those of a head, or of 64 rows of a head. */
enum { WPA_SCALES_HEAD = 0, WPA_SCALES_BLOCK = 1 };

enum { WPA_WINDOW_LEFT = 1, WPA_WINDOW_RIGHT = 2 };

/* Initialize with zeros, then set `size` to sizeof(wpa_request): later versions have more fields. */
typedef struct {
    uint32_t size;
    uint32_t batch;             /* sequences */
    uint32_t heads, kv_heads;   /* query head h reads key head h / (heads / kv_heads) */
    uint32_t head_dim;          /* elements of a row: 64, 96, 128 or 256 */
    uint32_t queries, keys;     /* of each sequence; with lengths_on_device, the most of any */
    uint32_t input;             /* WPA_E4M3, WPA_E5M2, WPA_VALUES_F16 or WPA_VALUES_BF16 */
    uint32_t scales;            /* WPA_SCALES_HEAD or WPA_SCALES_BLOCK */
    uint32_t causal;            /* 1: query i sees keys up to i + keys - queries */
    uint32_t lengths_on_device; /* 1: sequences are packed, and query_starts and key_starts have their lengths */
    uint32_t lse;               /* 1: also write the log-sum-exp of each row */
    float softmax_scale;        /* 0: 1/sqrt(head_dim) */
    uint32_t output;            /* WPA_O_F16 or WPA_O_BF16 */
    uint32_t smooth_keys;       /* 1: of values, the mean of each channel of K is subtracted before K is quantized, which makes the
                                   codes more precise and changes neither O nor the log-sum-exp otherwise; not with soft caps and
                                   sinks */
    /* Compiled for a causal mask and scales per block, in these combinations: a left window; sinks; a left window and sinks; a soft
     * cap; a soft cap and a left window; ALiBi. Others, also right windows, are WPA_UNSUPPORTED. */
    uint32_t window;            /* WPA_WINDOW_LEFT, WPA_WINDOW_RIGHT, or both by `|` */
    uint32_t window_left, window_right; /* keys before and after a query's own place, i + keys - queries, that it sees */
    float softcap;              /* not 0: scores become softcap * tanh(score / softcap) */
    uint32_t sinks;             /* 1: a logit of each head joins the sum of the softmax, without a value */
    uint32_t alibi;             /* 1: a slope of each head times the distance of key and query is subtracted from each score */
    uint32_t page_size;         /* not 0: K and V are e4m3 codes in pages of 64, 128 or 256 keys, and `input` is the type of Q. Needs
                                   causal and lengths_on_device */
} wpa_request;

/* A tensor in device memory, aligned to 16 bytes. Strides are in elements, and multiples of 16 bytes; the elements of a row are
 * adjacent. With lengths_on_device, the batch stride is not used. */
typedef struct {
    uint64_t data; /* a CUdeviceptr */
    uint64_t batch_stride, head_stride, row_stride;
} wpa_tensor;

/* Initialize with zeros, then set `size` to sizeof(wpa_arguments). Pointers are CUdeviceptr. */
typedef struct {
    uint64_t size;
    wpa_tensor q, k, v;
    wpa_tensor o;
    uint64_t q_scales, k_scales, v_scales;   /* of codes: float[batch][heads], or float[batch][heads][blocks of 64 rows, rounded up] */
    uint64_t lse;                            /* float[batch][heads][queries], if requested */
    uint64_t query_starts, key_starts;       /* uint32_t[batch + 1], with lengths_on_device: rows before each sequence, and all rows */
    uint64_t workspace, workspace_bytes;     /* at least wpa_workspace_bytes, aligned to 16; contents do not matter */
    uint64_t sinks, slopes;                  /* float[heads], if requested */
    uint64_t pages, pages_per_sequence;      /* uint32_t[batch][pages_per_sequence], with page_size: the pages of each sequence. The batch
                                                strides of K and V are then those of pages, and scales per block are
                                                float[page][kv_heads][page_size / 64] */
} wpa_arguments;

/* A prepared request. */
typedef struct wpa_attention wpa_attention;

uint32_t wpa_version(void);
wpa_status wpa_create(const wpa_request *request, wpa_attention **attention);
size_t wpa_workspace_bytes(const wpa_attention *attention);
/* Codes must be finite, and scales positive and finite. `stream` is a CUstream or cudaStream_t of the context of wpa_create. */
wpa_status wpa_run(const wpa_attention *attention, const wpa_arguments *arguments, void *stream);
/* Runs that a stream has not executed yet are not affected. Modules stay loaded until the context ends. */
void wpa_destroy(wpa_attention *attention);
/* The message of this thread's last call that failed; valid until the thread's next call. */
const char *wpa_last_error(void);

#ifdef __cplusplus
}
#endif
#endif
