use super::*;
use crate::diagnostic::{Place, Severity};

fn files(text: &str) -> Files {
    Files::new(vec![text.to_owned()], &[])
}

fn error(line: u32, message: &str) -> Diagnostic {
    let place = Some(Place { file: "k.cu".into(), line, column: None });
    let message = message.to_owned();
    Diagnostic { severity: Severity::Error, code: None, message, place, excerpt: None, notes: Vec::new() }
}

/// The remaining text after NVRTC reported an error in each line.
fn left(text: &str) -> String {
    let mut files = files(text);
    for line in 1..=u32::try_from(text.lines().count()).unwrap() {
        files.blame(0, &error(line, HOST[0]));
        files.blame(0, &error(line, "identifier \"x\" is undefined"));
    }
    let cut = files.text(0).into_owned();
    assert_eq!(cut.len(), text.len());
    assert_eq!(cut.lines().count(), text.lines().count());
    cut.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

#[test]
fn device_code_is_never_touched() {
    for text in [
        "__global__ void k(int *x) {\n  *x = 1;\n}",
        "template <int N = 4>\n__device__ float f(float x) {\n  return x * N;\n}",
        "#define HD __host__ \\\n  __device__\nHD inline int g() {\n  return 1;\n}",
        "#define KERNEL(T) \\\n  __global__ void k_##T(T *x) { *x = 1; }\nKERNEL(float)",
        "LIB_DEVICE int h() {\n  return 2;\n}",
        "__constant__ float c[4];\n__device__ int d = 3;",
        "namespace a {\nextern \"C\" {\n__global__ void k() {\n}\n}\n}",
        "struct S {\n  int a;\n  __device__ S(int b) : a{b}, c(1) {\n  }\n  int c;\n};",
        "static_assert(sizeof(int) == 4,\n \"x\");",
        "struct P {\n  float *x;\n};\n__global__ void k(P p) {\n}",
        "using T = float;\nconst int N = 4;\n#define M N\n__global__ void k(T *x) {\n  x[M] = 0;\n}",
        "template <>\nstruct Q<float> {\n  int n;\n};\n__device__ int n = Q<float>::n;",
        "enum {\n  TILE = 16\n};\n__global__ void k(int *x) {\n  *x = TILE;\n}",
        "HEAD {\n  x;\n}",
    ] {
        assert_eq!(left(text), text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n"), "{text}");
    }
}

#[test]
fn host_code_is_left_out() {
    let device = "__global__ void k() {\n}";
    for host in [
        "int main(int argc, char **argv) {\n  k<<<1, 2>>>();\n  return 0;\n}",
        "template <class T, int N = 3>\nvoid f(std::vector<T> &x) {\n}",
        "std::vector<float> a, b{1, 2};",
        "static const std::string name = \"}\";",
        "using std::vector;\nusing namespace std;\nnamespace c = std::chrono;",
        "class Timer {\npublic:\n  Timer() : t(now()), u{2} {\n  }\n  std::chrono::time_point t;\n};",
        "PYBIND11_MODULE(NAME, m) {\n  m.def(\"f\", &f);\n}",
        "extern \"C\" void f(int);\nvoid g();",
        "auto f = [](int x) {\n  return x;\n};",
        "typedef std::map<int, int> table;",
        "bool operator==(const A &a, const A &b) {\n  return true;\n}",
        "int operator()(int a) {\n}",
        "__host__ int f() {\n}",
        "std::vector<int> A::f() const noexcept {\n  return {};\n}",
        "constexpr int unused(int x) {\n  return x;\n}",
    ] {
        assert_eq!(left(&format!("{host}\n{device}\n{host}\n")), device, "{host}");
        assert_eq!(
            left(&format!("namespace n {{\n{host}\n{device}\n}}\n")),
            format!("namespace n {{\n{device}\n}}")
        );
    }
}

#[test]
fn host_members_of_device_types_are_left_out_and_data_is_kept() {
    let text = "struct V {\n  float *p;\n  V(int n) : p(0) {\n    cudaMalloc(&p, n);\n  }\n  ~V() { cudaFree(p); }\n  \
                std::string name() const;\n  __device__ float get() { return *p; }\n  virtual void v() { }\n};";
    let kept = "struct V {\n  float *p;\n  __device__ float get() { return *p; }\n  virtual void v() { }\n};";
    assert_eq!(left(text), kept);
}

#[test]
fn constexpr_functions_that_device_code_mentions_are_marked() {
    let text =
        "constexpr int half(int x) {\n  return x / 2;\n}\n__global__ void k(int *x) { *x = half(4); }\n";
    assert_eq!(left(text).lines().next(), Some("__wpcexpr int half(int x) {"));
    assert_eq!(CONSTEXPR.len(), "constexpr".len());
}

#[test]
fn preprocessor_lines_stay() {
    let text =
        "int main() {\n#ifdef A\n  f(\"\n#else\n  g();\n#endif\n#define N 4\n}\n__global__ void k() {}\n";
    assert_eq!(left(text), "#ifdef A\n#else\n#endif\n#define N 4\n__global__ void k() {}");
}

#[test]
fn only_functions_without_doubt_are_cut_together() {
    let text = "int a() { }\nMACRO int b() { }\nconstexpr int c() { return 1; }\n__device__ int d() { }\nint main() { }\n";
    let mut files = files(text);
    files.cut_functions(0);
    let kept: Vec<_> = files.text(0).lines().map(|line| !line.trim().is_empty()).collect();
    assert_eq!(kept, [false, true, true, true, false]);
    assert_eq!(files.skipped(0), [Lines { first: 1, last: 1 }, Lines { first: 5, last: 5 }]);
    assert_eq!(files.skipped_function("main"), Some((0, 5)));
}

/// Any text: no panic, the same number of bytes and lines, and no marked line changes.
#[test]
fn any_text_is_accepted() {
    const PIECES: [&str; 40] = [
        "{",
        "}",
        "(",
        ")",
        "[",
        "]",
        "<",
        ">",
        ";",
        ":",
        "::",
        ",",
        "=",
        "\"",
        "'",
        "R\"(",
        ")\"",
        "//",
        "/*",
        "*/",
        "\n",
        "\\\n",
        "#if 0\n",
        "#else\n",
        "#endif\n",
        "#define F(x) {",
        "template",
        "struct S",
        "class",
        "enum",
        "namespace n",
        "extern \"C\"",
        "operator",
        "constexpr",
        "__device__",
        "int f",
        "using",
        "é",
        " ",
        "public:",
    ];
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed >> 33).unwrap() % below
    };
    for _ in 0..4000 {
        let text: String = (0..next(60)).map(|_| [PIECES[next(PIECES.len())], " "].concat()).collect();
        left(&text);
    }
    let deep = "namespace a {".repeat(50_000) + &"struct s {".repeat(50_000) + &"#if 1\n".repeat(50_000);
    left(&format!("{}\n", deep.replace('\n', " ")));
    files(&deep);
}
