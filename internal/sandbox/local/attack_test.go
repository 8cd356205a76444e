package local_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"parley/internal/sandbox"
	"parley/internal/sandbox/sandboxtest"
)

func TestHostile(t *testing.T) {
	sandboxtest.Hostile(t, func(t *testing.T) sandbox.Backend { return imageBackend(t, nil) }, hostileOptions(sandbox.Spec{}))
}

// TestHostileImage tries the same where the root file system is an image's.
func TestHostileImage(t *testing.T) {
	if testing.Short() {
		t.Skip("short: the escapes are tried over the host's programs only")
	}
	m := images{"small": smallImage(t)}
	sandboxtest.Hostile(t, func(t *testing.T) sandbox.Backend { return imageBackend(t, m) }, hostileOptions(sandbox.Spec{Image: "small"}))
}

func hostileOptions(spec sandbox.Spec) sandboxtest.HostileOptions {
	return sandboxtest.HostileOptions{Options: sandboxtest.Options{Remove: removeByHand}, Spec: spec,
		DataDir: filepath.Join(shared, "boxes"), Attack: os.Getenv(attackVar)}
}

// TestLayersHold tries what only this backend's own layers forbid, beside the
// suite's list of escapes: read-only and hidden files of the kernel, and Landlock.
func TestLayersHold(t *testing.T) {
	b := newBackend(t)
	box := create(t, b, sandbox.Spec{ID: "layers"})
	attacks := map[string]string{
		"write to /sys":           "mkdir /sys/new",
		"switch a processor off":  "echo 0 > /sys/devices/system/cpu/cpu1/online",
		"memory figures":          "echo x > /proc/meminfo",
		"memory types":            "echo x > /proc/mtrr",
		"interrupt affinity":      "echo 1 > /proc/irq/default_smp_affinity",
		"sysrq":                   "echo h > /proc/sysrq-trigger",
		"switches of the network": "echo 1 > /proc/sys/net/ipv4/ip_forward",
		"uncover":                 "umount /proc/kcore",
		"last to be ended":        "echo -1000 > /proc/self/oom_score_adj",
		"better than others":      `test "$(nice -n -10 nice 2>/dev/null)" = -10`,
	}
	for _, name := range []string{"acpi", "scsi", "asound"} {
		attacks["list "+name] = fmt.Sprintf(`test -n "$(ls -A /proc/%s)"`, name)
	}
	for _, name := range []string{"kcore", "kmsg", "interrupts", "key-users", "keys", "kallsyms", "timer_list", "cmdline", "slabinfo", "vmallocinfo"} {
		attacks["read "+name] = fmt.Sprintf("head -c 1 /proc/%s | grep -q .", name)
	}
	if holds(t, b, "landlock") {
		attacks["device node in memory"] = "mknod /dev/shm/whiteout c 0 0"
	}
	for name, script := range attacks {
		if out := run(t, box, "("+script+") 2>/dev/null"); out.Code == 0 {
			t.Errorf("%s: %s succeeded", name, script)
		}
	}
	if got := sh(t, box, "cat /proc/self/oom_score_adj"); got == "0" {
		t.Error("the kernel would end the server before a box that takes all memory")
	}
}

// TestProgramsWork runs what the layers must not break.
func TestProgramsWork(t *testing.T) {
	box := create(t, newBackend(t), sandbox.Spec{ID: "programs"})
	for _, script := range []string{
		"mkdir -p /data/new && echo x > /data/new/file && mv /data/new/file /data/file && ln /data/file /workspace/project/../../data/hard",
		"mkfifo pipe && (echo through > pipe &) && grep -q through pipe",
		"echo 500 > /proc/self/oom_score_adj && cat /proc/self/maps /proc/self/status /proc/stat /proc/loadavg /proc/uptime > /dev/null",
		"echo x > /dev/null && head -c 10 /dev/urandom > /dev/shm/random && rm /dev/shm/random",
		"command -v script >/dev/null || exit 0; script -qec 'stty size; tty' /dev/null > /dev/null",
		"command -v git >/dev/null || exit 0; git init -q r && cd r && git -c user.name=a -c user.email=b@c commit -q --allow-empty -m x && git gc -q && git clone -q . ../s",
		"command -v python3 >/dev/null || exit 0; python3 -c 'import subprocess, multiprocessing, tempfile, socket; multiprocessing.Lock(); socket.socketpair(); subprocess.check_call([\"true\"]); tempfile.TemporaryFile()'",
		"command -v node >/dev/null || exit 0; node -e 'new (require(\"worker_threads\").Worker)(\"1\", {eval: true}); require(\"os\").cpus(); require(\"os\").totalmem()'",
		"command -v strace >/dev/null || exit 0; strace -f -o /dev/null sh -c true",
		"command -v gdb >/dev/null || exit 0; gdb -batch -ex run -ex quit --args true >/dev/null 2>&1",
	} {
		sh(t, box, script)
	}
}
