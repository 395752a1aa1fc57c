//! `//@launch:` lines, and launches on the software GPU that must not depend on the host.

use std::collections::BTreeMap;

use warpproof_check::{BufferRole, CheckLaunch, Class, Finding, Role, Settings, Severity};
use warpproof_count::{CountLaunch, CountSettings};
use warpproof_num::random::SplitMix;
use warpproof_sim::schedule::{Blocks, CopyTiming, Order, Schedule};
use warpproof_sim::{Buffer, Device, Launch, Level, Stop};

use crate::data::{Data, Type};

/// One argument of a kernel.
#[derive(Clone, Debug)]
pub(crate) struct Argument {
    pub(crate) name: String,
    pub(crate) data: Data,
    /// By value, or an array in device memory.
    pub(crate) scalar: bool,
    /// What the kernel may do with it.
    pub(crate) role: Role,
}

/// A launch: the kernel's name as in the source, its shape and its arguments.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) kernel: String,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared: u32,
    pub(crate) arguments: Vec<Argument>,
}

/// Arrays, and where they are.
type Uploaded<'a> = Vec<(&'a Argument, Buffer<u8>)>;

/// What a launch left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Effects {
    memory: BTreeMap<String, Data>,
    pub(crate) output: String,
    instructions: u64,
}

/// A launch before and after.
#[derive(Debug)]
pub(crate) struct Launched<'a> {
    pub(crate) case: &'a Case,
    pub(crate) effects: Effects,
}

impl Launched<'_> {
    /// An argument as passed.
    pub(crate) fn given(&self, name: &str) -> &Data {
        let found = self.case.arguments.iter().find(|argument| argument.name == name);
        &found.unwrap_or_else(|| panic!("{} has no argument {name}", self.case.kernel)).data
    }

    /// An array after the launch.
    pub(crate) fn after(&self, name: &str) -> &Data {
        let found = self.effects.memory.get(name);
        found.unwrap_or_else(|| panic!("{} has no array {name}", self.case.kernel))
    }

    pub(crate) fn integers(&self, name: &str) -> Vec<i64> {
        self.given(name).integers()
    }

    pub(crate) fn floats(&self, name: &str) -> Vec<f64> {
        self.given(name).floats()
    }

    /// An integer given by value.
    pub(crate) fn count(&self, name: &str) -> usize {
        usize::try_from(self.integers(name)[0]).unwrap()
    }
}

impl Case {
    /// Reads what follows `//@launch:`.
    pub(crate) fn parse(line: &str) -> Case {
        let mut case =
            Case { kernel: String::new(), grid: [1; 3], block: [1; 3], shared: 0, arguments: Vec::new() };
        for word in line.split_whitespace() {
            let (key, value) = word.split_once('=').unwrap();
            match key {
                "kernel" => value.clone_into(&mut case.kernel),
                "grid" => case.grid = extents(value),
                "block" => case.block = extents(value),
                "shared" => case.shared = value.parse().unwrap(),
                "arg" => case.arguments.push(Argument::parse(value)),
                _ => panic!("{word} in a launch line"),
            }
        }
        case
    }

    /// Launches once.
    pub(crate) fn run(&self, ptx: &str, symbol: &str, host: Host) -> Result<Effects, Box<Stop>> {
        let mut device = Device::new().with_level(host.level).with_threads(host.threads);
        device.schedule = host.schedule;
        device.limits.instructions = 200_000_000;
        let (launch, arrays) = self.prepare(&mut device, ptx, symbol)?;
        let outcome = launch.run(&mut device)?;
        let memory = arrays
            .into_iter()
            .map(|(argument, buffer)| {
                (argument.name.clone(), Data { ty: argument.data.ty, bytes: device.read(&buffer).unwrap() })
            })
            .collect();
        let output = String::from_utf8(outcome.output).unwrap();
        Ok(Effects { memory, output, instructions: outcome.instructions })
    }

    /// Uploads the arrays and returns the launch with them.
    fn prepare(
        &self,
        device: &mut Device,
        ptx: &str,
        symbol: &str,
    ) -> Result<(Launch, Uploaded<'_>), Box<Stop>> {
        let module = device.load(ptx)?;
        let kernel = module.kernel(symbol)?;
        let mut launch = kernel.launch().grid(self.grid).block(self.block).shared(self.shared);
        let mut arrays = Uploaded::new();
        for argument in &self.arguments {
            launch = if argument.scalar {
                launch.arg(argument.data.bytes.clone())
            } else {
                let buffer = device.upload(&argument.data.bytes).unwrap();
                arrays.push((argument, buffer));
                launch.arg(buffer)
            };
        }
        Ok((launch, arrays))
    }

    /// Launches with all checks under three schedules, and with counters. Returns the findings and the counters.
    fn observe(&self, ptx: &str, symbol: &str, host: Host) -> (Vec<Finding>, String) {
        let device = || Device::new().with_level(host.level).with_threads(host.threads);
        let prepare = |device: &mut Device| {
            let prepared = self.prepare(device, ptx, symbol);
            let (launch, arrays) = prepared.unwrap_or_else(|stop| panic!("{}: {stop}", self.kernel));
            let buffers = arrays.into_iter().map(|(argument, buffer)| BufferRole {
                name: argument.name.clone(),
                address: buffer.address(),
                element: u32::try_from(argument.data.ty.size()).unwrap(),
                extents: vec![(argument.data.bytes.len() / argument.data.ty.size()) as u64],
                role: argument.role,
                initialized: !argument.data.is_unwritten(),
            });
            (launch, buffers.collect())
        };
        let mut checking = device();
        let (launch, buffers) = prepare(&mut checking);
        let settings = Settings { buffers, ..Settings::default() };
        let checked = checking.check_schedules(&launch, &settings, Some(3), 1).checked;
        if let Some(stop) = checked.outcome.stop {
            panic!("{} with checks: {stop}", self.kernel);
        }
        let mut counting = device();
        let (launch, _) = prepare(&mut counting);
        let counted = counting.count(&launch, &CountSettings::default());
        (checked.findings, format!("{:?}", counted.counters))
    }

    /// Launches at every vector level and with 1, 2 and 8 threads of the host, ten times or more, asserts
    /// that all results are equal, and checks them; then checks the results of other schedules. Findings and
    /// counters must be those of every host too, and `warpproof check` must report nothing. Results that depend
    /// on the order are allowed: the reference accepts any (`atomicExch` keeps the last value, a filter its own order).
    pub(crate) fn check(&self, ptx: &str, symbol: &str, check: impl Fn(&Launched<'_>)) {
        let must_run = |host: Host| {
            self.run(ptx, symbol, host).unwrap_or_else(|stop| panic!("{} with {host:?}: {stop}", self.kernel))
        };
        let first = must_run(Host::PLAIN);
        check(&Launched { case: self, effects: first.clone() });
        let mut runs = 1;
        while runs < 10 {
            for level in Level::ALL.into_iter().filter(|level| level.available()) {
                for threads in [1, 2, 8] {
                    let host = Host { level, threads, ..Host::PLAIN };
                    let again = must_run(host);
                    assert!(again == first, "{}: {host:?} differs from the first run", self.kernel);
                    runs += 1;
                }
            }
        }
        for (order, quantum, copies) in
            [(Order::Reverse, 1, CopyTiming::Early), (Order::Random(7), 13, CopyTiming::Late)]
        {
            let schedule = Schedule { order, quantum, copies, ..Schedule::default() };
            let effects = must_run(Host { level: Level::detect(), threads: 2, schedule });
            check(&Launched { case: self, effects });
        }
        let (findings, counters) = self.observe(ptx, symbol, Host::PLAIN);
        for (level, threads) in [(Level::V3, 2), (Level::V4, 8)] {
            let host = Host { level: level.or_below(), threads, ..Host::PLAIN };
            let (again, counted) = self.observe(ptx, symbol, host);
            assert_eq!(again, findings, "{}: {host:?} has other findings", self.kernel);
            assert_eq!(counted, counters, "{}: {host:?} has other counters", self.kernel);
        }
        let wrong = |finding: &&Finding| finding.severity == Severity::Error && finding.class != Class::Order;
        let errors: Vec<String> = findings.iter().filter(wrong).map(Finding::to_string).collect();
        assert!(errors.is_empty(), "{} is correct, and yet:\n{}", self.kernel, errors.join("\n"));
    }
}

/// How the host runs a launch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Host {
    pub(crate) level: Level,
    pub(crate) threads: usize,
    pub(crate) schedule: Schedule,
}

impl Host {
    pub(crate) const PLAIN: Host = Host {
        level: Level::Portable,
        threads: 1,
        schedule: Schedule {
            order: Order::Forward,
            quantum: 4096,
            copies: CopyTiming::Late,
            blocks: Blocks::InOrder,
        },
    };
}

fn extents(text: &str) -> [u32; 3] {
    let mut extents = [1; 3];
    for (extent, number) in extents.iter_mut().zip(text.split(',')) {
        *extent = number.parse().unwrap();
    }
    extents
}

impl Argument {
    fn parse(text: &str) -> Argument {
        let (name, rest) = text.split_once(':').unwrap();
        // An output that is written only in part is declared as `inout`.
        let (partly, rest) = rest.strip_prefix("inout:").map_or((false, rest), |rest| (true, rest));
        let (shape, fill) = rest.split_once('=').map_or((rest, None), |(shape, fill)| (shape, Some(fill)));
        let (ty, count) = match shape.split_once('[') {
            Some((ty, count)) => (ty, Some(count.trim_end_matches(']').parse().unwrap())),
            None => (shape, None),
        };
        let ty = Type::named(ty);
        let data = match fill {
            None => Data::unwritten(ty, count.unwrap()),
            Some(fill) => filled(ty, count.unwrap_or(1), fill),
        };
        let role = if data.is_unwritten() && !partly { Role::Out } else { Role::InOut };
        Argument { name: name.to_owned(), data, scalar: count.is_none(), role }
    }
}

/// Seeded numbers.
pub(crate) struct Random(SplitMix);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(SplitMix(seed))
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.0.next()
    }

    /// In [0, 1).
    pub(crate) fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Both ends included.
    pub(crate) fn within(&mut self, low: i64, high: i64) -> i64 {
        low + (self.bits() % (high - low + 1) as u64) as i64
    }

    /// Normally distributed, by Box and Muller's transform.
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }
}

fn filled(ty: Type, count: usize, fill: &str) -> Data {
    let (name, inside) =
        fill.split_once('(').map_or((fill, ""), |(name, rest)| (name, rest.trim_end_matches(')')));
    let (mut numbers, mut seed) = (Vec::new(), 0);
    for part in inside.split(',').filter(|part| !part.is_empty()) {
        match part.strip_prefix("seed=") {
            Some(text) => seed = text.parse().unwrap(),
            None => numbers.push(part.parse::<f64>().unwrap()),
        }
    }
    let mut random = Random::new(seed);
    match name {
        "zeros" => Data { ty, bytes: vec![0; count * ty.size()] },
        "iota" => {
            let first = numbers.first().copied().unwrap_or(0.0);
            Data::of_values(ty, (0..count).map(|i| first + i as f64))
        }
        "randn" => Data::of_floats(ty, (0..count).map(|_| random.normal())),
        "uniform" => {
            let (low, high) = (numbers[0], numbers[1]);
            Data::of_floats(ty, (0..count).map(|_| low + (high - low) * random.unit()))
        }
        "randint" if numbers.is_empty() => Data::of_bits(ty, (0..count).map(|_| random.bits())),
        "randint" => {
            let (low, high) = (numbers[0] as i64, numbers[1] as i64);
            Data::of_bits(ty, (0..count).map(|_| random.within(low, high) as u64))
        }
        list if list.starts_with('[') => {
            let elements = list.trim_matches(['[', ']']).split(',').map(|element| element.parse().unwrap());
            Data::of_values(ty, elements)
        }
        // Numbers of 64 bits do not fit a f64.
        number if !ty.is_float() => {
            let bits = number.parse::<u64>().unwrap_or_else(|_| number.parse::<i64>().unwrap() as u64);
            Data::of_bits(ty, vec![bits; count])
        }
        number => Data::of_floats(ty, vec![number.parse().unwrap(); count]),
    }
}
