//! Machines described by tables of files.

use super::*;

const GIB: u64 = 1 << 30;

/// Probes a machine that has these files and no others.
fn machine(files: &[(&str, &str)]) -> Machine {
    let read = |path: &str| files.iter().find(|(name, _)| *name == path).map(|(_, text)| (*text).to_owned());
    describe(&read, &Fallback { cores: 2, memory_bytes: 3 * GIB }, Features::default())
}

const STATUS_0_7: (&str, &str) = ("/proc/thread-self/status", "Name:\tcairn\nCpus_allowed_list:\t0-7\n");
const ONLINE_0_7: (&str, &str) = ("/sys/devices/system/cpu/online", "0-7\n");
const MEMINFO: (&str, &str) =
    ("/proc/meminfo", "MemTotal:       16777216 kB\nMemFree:  1048576 kB\nMemAvailable:    8388608 kB\n");
const V2_MOUNT: (&str, &str) =
    ("/proc/self/mountinfo", "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");

#[test]
fn cpu_lists_are_parsed() {
    let check = |list: &str, expected: Option<&[usize]>| {
        assert_eq!(topology::parse_list(list).as_deref(), expected, "list {list:?}");
    };
    check("0\n", Some(&[0]));
    check("0-3,8,10-11", Some(&[0, 1, 2, 3, 8, 10, 11]));
    check("3,1,1-2", Some(&[1, 2, 3]));
    check("", Some(&[]));
    check("3-1", None);
    check("a", None);
    check("0-99999999999", None);
}

#[test]
fn one_thread_of_each_core_is_used() {
    let siblings = [
        ("/sys/devices/system/cpu/cpu0/topology/core_cpus_list", "0,4"),
        ("/sys/devices/system/cpu/cpu1/topology/core_cpus_list", "1,5"),
        ("/sys/devices/system/cpu/cpu2/topology/thread_siblings_list", "2,6"),
        ("/sys/devices/system/cpu/cpu3/topology/core_cpus_list", "3,7"),
        ("/sys/devices/system/cpu/cpu4/topology/core_cpus_list", "0,4"),
        ("/sys/devices/system/cpu/cpu5/topology/core_cpus_list", "1,5"),
    ];
    let with = |allowed: (&'static str, &'static str)| machine(&[&[allowed, ONLINE_0_7], &siblings[..]].concat()).cpu;
    let whole = with(STATUS_0_7);
    assert_eq!((whole.physical_cores, whole.logical), (4, 8), "four cores of two threads");
    assert_eq!(whole.usable_cores, [0, 1, 2, 3], "the first thread of each");
    let part = with(("/proc/self/status", "Cpus_allowed_list: 4-5\n"));
    assert_eq!(part.usable_cores, [4, 5], "the mask allows the second thread of two cores");
    assert_eq!(part.physical_cores, 4, "a mask does not change the machine");
}

#[test]
fn hardware_without_system_files_uses_fallback_values() {
    let Machine { cpu, memory } = machine(&[]);
    assert_eq!((cpu.physical_cores, cpu.logical, cpu.usable_cores), (2, 2, vec![0, 1]), "two cores, no topology");
    assert_eq!(memory, Memory { total_bytes: 3 * GIB, available_bytes: 3 * GIB, limit_bytes: None }, "no files");
    assert_eq!(cpu.brand, "", "no brand");
}

#[test]
fn brand_is_read_from_cpuinfo() {
    let check = |text: &str, expected: &str| assert_eq!(brand(text), expected, "cpuinfo {text:?}");
    check("processor\t: 0\nmodel name\t: AMD EPYC 9554\nflags : avx2\n", "AMD EPYC 9554");
    check("CPU implementer\t: 0x41\nCPU part\t: 0xd0c\n", "ARM implementer 0x41 part 0xd0c");
    check("model name\t: \n", "");
}

#[test]
fn memory_without_limits_is_the_system_estimate() {
    let memory = machine(&[MEMINFO]).memory;
    assert_eq!(memory, Memory { total_bytes: 16 * GIB, available_bytes: 8 * GIB, limit_bytes: None }, "as in meminfo");
}

#[test]
fn lowest_limit_of_parent_groups_applies() {
    let files = [
        STATUS_0_7,
        ONLINE_0_7,
        MEMINFO,
        V2_MOUNT,
        ("/proc/self/cgroup", "0::/user.slice/cairn.service\n"),
        ("/sys/fs/cgroup/user.slice/cairn.service/memory.max", "max\n"),
        ("/sys/fs/cgroup/user.slice/cairn.service/cpu.max", "max 100000\n"),
        ("/sys/fs/cgroup/user.slice/memory.max", "4294967296\n"),
        ("/sys/fs/cgroup/user.slice/memory.current", "3221225472\n"),
        ("/sys/fs/cgroup/user.slice/memory.stat", "anon 1\ninactive_file 1073741824\n"),
        ("/sys/fs/cgroup/user.slice/cpu.max", "350000 100000\n"),
    ];
    let Machine { cpu, memory } = machine(&files);
    assert_eq!(memory.limit_bytes, Some(4 * GIB), "limit of the slice");
    assert_eq!(memory.available_bytes, 2 * GIB, "4 GiB less 3 in use, of which 1 only caches files");
    assert_eq!(cpu.usable_cores, [0, 1, 2], "a quota of 3.5 allows three threads");
}

#[test]
fn small_quota_allows_one_core() {
    let quota = ("/sys/fs/cgroup/cpu.max", "20000 100000\n");
    let cpu = machine(&[STATUS_0_7, V2_MOUNT, ("/proc/self/cgroup", "0::/\n"), quota]).cpu;
    assert_eq!(cpu.usable_cores, [0], "a quota of 0.2 allows one thread");
}

#[test]
fn version_1_container_with_host_paths_uses_the_mount() {
    let mounts = "40 30 0:35 /docker/ab /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n\
                  41 30 0:36 / /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n\
                  42 30 0:37 / /sys/fs/cgroup/pids ro - cgroup cgroup rw,pids\n";
    let files = [
        STATUS_0_7,
        MEMINFO,
        ("/proc/self/mountinfo", mounts),
        ("/proc/self/cgroup", "5:pids:/x\n4:memory:/docker/ab\n3:cpu,cpuacct:/docker/ab\n"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "2147483648\n"),
        ("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1073741824\n"),
        ("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "200000\n"),
        ("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
        ("/sys/fs/cgroup/pids/memory.limit_in_bytes", "1\n"),
    ];
    let Machine { cpu, memory } = machine(&files);
    assert_eq!(memory.limit_bytes, Some(2 * GIB), "the mount is the container's own group");
    assert_eq!(memory.available_bytes, GIB, "half of it is in use");
    assert_eq!(cpu.usable_cores, [0, 1], "a quota of 2 allows two threads");
}

#[test]
fn unlimited_groups_of_both_versions_have_no_limit() {
    let v1 = "40 30 0:35 / /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n\
              41 30 0:36 / /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n";
    let check = |files: &[(&str, &str)]| {
        let Machine { cpu, memory } = machine(&[&[STATUS_0_7, MEMINFO], files].concat());
        assert_eq!((memory.limit_bytes, memory.available_bytes), (None, 8 * GIB), "files {files:?}");
        assert_eq!(cpu.usable_cores.len(), 8, "files {files:?}");
    };
    check(&[
        ("/proc/self/mountinfo", v1),
        ("/proc/self/cgroup", "4:memory:/\n3:cpu:/\n"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
        ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"),
        ("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
    ]);
    check(&[
        V2_MOUNT,
        ("/proc/self/cgroup", "0::/\n"),
        ("/sys/fs/cgroup/memory.max", "max\n"),
        ("/sys/fs/cgroup/cpu.max", "max 100000\n"),
    ]);
    let above_the_machine =
        [V2_MOUNT, ("/proc/self/cgroup", "0::/\n"), ("/sys/fs/cgroup/memory.max", "1099511627776\n")];
    check(&above_the_machine);
}

#[test]
fn process_memory_is_parsed_from_status() {
    let status = "Name:\tcairn\nVmRSS:\t  2048 kB\nRssAnon:\t  512 kB\nRssFile:\t  1536 kB\n";
    let expected = Process { resident_bytes: 2 << 20, mapped_bytes: 1536 << 10 };
    assert_eq!(resident(status), Some(expected), "in bytes");
    assert_eq!(resident("Name:\tcairn\n"), None, "a zombie has no memory");
}

#[test]
fn busy_time_is_that_of_the_cores_without_low_priority() {
    let stat =
        "cpu  90 90 90 90 90 90 90 90 0 0\ncpu0 10 900 20 5000 7 3 4 5 0 0\ncpu1 1 2 3 4 5\ncpu11 1 1 1 1 1\nintr 5\n";
    let busy = |text: Option<&str>, cores: &[usize]| core_time::busy(&|_| text.map(str::to_owned), cores, 100);
    let ms = |ms| Some(std::time::Duration::from_millis(ms));
    assert_eq!(busy(Some(stat), &[0]), ms(420), "user, system, interrupts, stolen");
    assert_eq!(busy(Some(stat), &[1]), ms(40), "an old kernel has five fields");
    assert_eq!(busy(Some(stat), &[0, 11]), ms(440), "the sum of both");
    assert_eq!(busy(Some(stat), &[2]), None, "no such core");
    assert_eq!(busy(Some("cpu0 1 2 x 4 5\n"), &[0]), None, "a damaged line");
    assert_eq!(busy(None, &[0]), None, "no file");
}
