// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package setup_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

const repository = "../.."

// base are programs of packages that every Debian has ("Essential"), which the script may call.
var base = []string{
	"awk", "bash", "cat", "chmod", "cut", "dirname", "env", "find", "grep", "head", "mkdir", "mktemp", "rm", "sed",
	"sha256sum", "sort",
	"tail", "timeout", "xargs",
}

// machine is a machine as the script sees it.
type machine struct {
	// programs are shell scripts by the name of the program.
	programs map[string]string
	// files are below the root; a name that ends with a slash is a folder.
	files map[string]string
	env   []string
}

// newMachine returns a machine that has everything.
func newMachine() *machine {
	m := &machine{
		programs: map[string]string{
			"id":       `if [ "${1:-}" = -u ]; then echo 0; else echo root; fi`,
			"nproc":    "echo 2",
			"uname":    "echo Linux",
			"unshare":  "exit 0",
			"modprobe": "exit 1",
			"df":       `printf 'Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/vda 0 0 100000000 0%% /\n'`,
			"apt-get":  `echo "apt-get $*" >>"$CALLS"`,
			"go": `case "$*" in
"env GOVERSION") echo "${FAKE_GO:-go1.26.8}" ;;
"env GOTOOLCHAIN") echo "${FAKE_TOOLCHAIN:-local}" ;;
"env GOPROXY") echo "${FAKE_PROXY_URL:-https://user:word@proxy.example}" ;;
"env GOCACHE") echo /cache ;;
"list -m "*) if [ -n "${FAKE_PROXY:-}" ]; then echo "$FAKE_PROXY" >&2; exit 1; fi; echo ok ;;
*) echo "unexpected: go $*" >&2; exit 1 ;;
esac`,
		},
		files: map[string]string{
			"/proc/meminfo":                      "MemTotal: 24000000 kB\nMemAvailable: 20000000 kB\n",
			"/sys/fs/cgroup/cgroup.controllers":  "cpuset cpu io memory hugetlb pids rdma misc\n",
			"/dev/net/tun":                       "",
			"/etc/ssl/certs/ca-certificates.crt": "some",
			"/usr/include/stdlib.h":              "some",
			"/usr/sbin/openvpn":                  "some",
			"/sbin/ip":                           "some",
		},
	}
	for _, name := range []string{"make", "git", "runc", "nft", "iptables", "mount", "nsenter", "pip3", "gcc", "jq"} {
		m.programs[name] = "exit 0"
	}
	return m
}

// result is what a call of the script has come to.
type result struct {
	code           int
	stdout, stderr string
	// calls are those of apt-get.
	calls string
}

func (m *machine) run(args ...string) result {
	GinkgoHelper()
	folder := GinkgoT().TempDir()
	programs, root := filepath.Join(folder, "bin"), filepath.Join(folder, "root")
	Expect(os.Mkdir(programs, 0o755)).To(Succeed())
	for name, script := range m.programs {
		Expect(os.WriteFile(filepath.Join(programs, name), []byte("#!/usr/bin/env bash\n"+script+"\n"), 0o755)).
			To(Succeed())
	}
	for _, name := range base {
		path, err := exec.LookPath(name)
		Expect(err).NotTo(HaveOccurred())
		Expect(os.Symlink(path, filepath.Join(programs, name))).To(Succeed())
	}
	for name, content := range m.files {
		path := filepath.Join(root, name)
		Expect(os.MkdirAll(filepath.Dir(path), 0o755)).To(Succeed())
		if strings.HasSuffix(name, "/") {
			Expect(os.MkdirAll(path, 0o755)).To(Succeed())
			continue
		}
		Expect(os.WriteFile(path, []byte(content), 0o644)).To(Succeed())
	}
	script, err := filepath.Abs(filepath.Join(repository, "hack", "setup.sh"))
	Expect(err).NotTo(HaveOccurred())
	calls := filepath.Join(folder, "calls")
	cmd := exec.Command(script, args...)
	cmd.Env = append([]string{
		"PATH=" + programs, "HOME=" + folder, "SETUP_ROOT=" + root, "CALLS=" + calls,
		"LIVECPM_CACHE=" + filepath.Join(folder, "cache"), "LIVECPM_STATE=" + filepath.Join(folder, "state"),
	}, m.env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	_ = cmd.Run()
	called, _ := os.ReadFile(calls)
	return result{code: cmd.ProcessState.ExitCode(), stdout: stdout.String(), stderr: stderr.String(),
		calls: string(called)}
}

// installs lets the fake apt-get install these programs.
func (m *machine) installs(names ...string) {
	script := m.programs["apt-get"]
	for _, name := range names {
		script += fmt.Sprintf("\ncase \"$*\" in *install*) ln -sf env \"$(dirname \"$0\")/%s\" ;; esac", name)
	}
	m.programs["apt-get"] = script + "\n"
	m.programs["ln"] = `exec /bin/ln "$@"`
}

var _ = Describe("hack/setup.sh", func() {
	var m *machine

	BeforeEach(func() { m = newMachine() })

	It("should say nothing on a machine that has everything", func() {
		for _, purpose := range []string{"landscape", "test", "check", "recovery"} {
			r := m.run(purpose)
			Expect(r.stderr).To(BeEmpty(), purpose)
			Expect(r.stdout).To(BeEmpty(), purpose)
			Expect(r.code).To(BeZero(), purpose)
			Expect(r.calls).To(BeEmpty(), purpose)
		}
	})

	It("should name each package before it installs it", func() {
		delete(m.programs, "runc")
		delete(m.programs, "nft")
		m.installs("runc", "nft")
		r := m.run("landscape")
		Expect(r.stderr).To(BeEmpty())
		Expect(r.code).To(BeZero())
		Expect(r.stdout).To(
			MatchRegexp(
				`(?s)installing 2 Debian packages.*runc +starts the containers.*nftables +holds the rules of kube-proxy`))
		Expect(r.calls).To(Equal(
			"apt-get update\napt-get -o DPkg::Lock::Timeout=120 install -y --no-install-recommends runc nftables\n"))
	})

	It("should not ask for packages of another purpose", func() {
		delete(m.programs, "runc")
		delete(m.programs, "jq")
		Expect(m.run("test").code).To(BeZero())
		delete(m.files, "/usr/include/stdlib.h")
		Expect(m.run("test").calls + m.run("test").stderr).To(ContainSubstring("libc6-dev"))
	})

	DescribeTable("should ask for OpenVPN where shoots have workers, and where it is tested", func(shoot string) {
		m := newMachine()
		delete(m.files, "/usr/sbin/openvpn")
		m.env = append(m.env, "INSTALL=no")
		Expect(m.run("landscape").stderr).NotTo(ContainSubstring("openvpn"))
		Expect(m.run("test").stderr).To(ContainSubstring("openvpn"))
		m.env = append(m.env, "LIVECPM_SHOOT="+shoot)
		Expect(m.run("landscape").stderr).To(ContainSubstring("openvpn"))
	},
		Entry("three members", "workers"),
		Entry("one member", "single-workers"),
	)

	It("should fail when a package does not bring its program", func() {
		delete(m.programs, "runc")
		r := m.run("landscape")
		Expect(r.code).To(Equal(1))
		Expect(r.stderr).To(ContainSubstring("package runc is installed, and runc is still not there"))
	})

	It("should print the end of apt-get's output and the command when packages cannot be installed", func() {
		delete(m.programs, "runc")
		m.programs["apt-get"] = "echo no route to the mirror; exit 100"
		r := m.run("landscape")
		Expect(r.code).To(Equal(1))
		Expect(r.stderr).To(And(ContainSubstring("no route to the mirror"),
			ContainSubstring("apt-get update && apt-get install -y --no-install-recommends runc")))
	})

	It("should only print the command with INSTALL=no", func() {
		delete(m.programs, "runc")
		m.env = append(m.env, "INSTALL=no")
		r := m.run("landscape")
		Expect(r.code).To(Equal(1))
		Expect(r.stderr).To(ContainSubstring("-> apt-get update && apt-get install -y --no-install-recommends runc\n"))
		Expect(r.calls).To(BeEmpty())
	})

	It("should list what is missing where it cannot install: without root, and on another distribution", func() {
		delete(m.programs, "gcc")
		m.programs["id"] = `if [ "${1:-}" = -u ]; then echo 1000; else echo somebody; fi`
		r := m.run("test")
		Expect(r.code).To(Equal(1))
		Expect(r.stderr).To(
			ContainSubstring("-> sudo sh -c 'apt-get update && apt-get install -y --no-install-recommends gcc'"))
		delete(m.programs, "apt-get")
		r = m.run("test")
		Expect(r.code).To(Equal(1))
		Expect(r.stderr).To(ContainSubstring("missing: gcc (names of Debian's packages)"))
	})

	It("should need no root for tests that need no package", func() {
		m.programs["id"] = `if [ "${1:-}" = -u ]; then echo 1000; else echo somebody; fi`
		Expect(m.run("test").code).To(BeZero())
	})

	DescribeTable("should say what lacks, with figures and the way out",
		func(change func(), purpose, expected string) {
			change()
			r := m.run(purpose)
			Expect(r.code).To(Equal(1))
			Expect(r.stderr).To(ContainSubstring(expected))
			Expect(r.stderr).To(ContainSubstring("  -> "))
			Expect(r.calls).To(BeEmpty())
		},
		Entry("system", func() { m.programs["uname"] = "echo Darwin" }, "test", "this is Darwin, Linux is needed"),
		Entry("root", func() { m.programs["id"] = `if [ "${1:-}" = -u ]; then echo 1000; else echo me; fi` },
			"landscape", "this is user me, root is needed"),
		Entry("namespaces", func() { m.programs["unshare"] = "exit 1" }, "landscape", "namespaces cannot be made"),
		Entry("no Go", func() { delete(m.programs, "go") }, "test", "there is no go, Go 1.26"),
		Entry("old Go", func() { m.env = append(m.env, "FAKE_GO=go1.24.1") }, "test", "this is Go 1.24.1, Go 1.26"),
		Entry("Go too old to fetch a newer one",
			func() { m.env = append(m.env, "FAKE_GO=go1.20.1", "FAKE_TOOLCHAIN=auto") }, "test", "this is Go 1.20.1"),
		Entry("proxy", func() { m.env = append(m.env, "FAKE_PROXY=dial tcp: no such host") }, "test",
			"GOPROXY=https://proxy.example: dial tcp: no such host"),
		Entry("processors", func() { m.programs["nproc"] = "echo 1" }, "test", "1, 2 are needed"),
		Entry("memory", func() { m.files["/proc/meminfo"] = "MemAvailable: 8000000 kB\n" }, "landscape",
			"8.2 GB free, 12.0 GB are needed"),
		Entry("memory of a container", func() { m.files["/sys/fs/cgroup/memory.max"] = "4000000000\n" }, "test",
			"4.0 GB free, 6.0 GB are needed"),
		Entry("disk", func() {
			m.programs["df"] = `printf 'head\n/dev/vda 0 0 2000000 0%% /\n'`
		}, "landscape", "2.0 GB free for "),
		Entry("cgroup v2", func() { m.files["/sys/fs/cgroup/cgroup.controllers"] = "cpu pids\n" }, "landscape",
			"/sys/fs/cgroup lacks cpuset memory"),
		Entry("cgroup v1", func() {
			delete(m.files, "/sys/fs/cgroup/cgroup.controllers")
			for _, name := range []string{"blkio", "cpu", "cpuacct", "cpuset", "devices", "memory", "pids"} {
				m.files["/sys/fs/cgroup/"+name+"/"] = ""
			}
		}, "landscape", "/sys/fs/cgroup lacks freezer"),
		Entry("tun", func() { delete(m.files, "/dev/net/tun") }, "landscape", "there is no /dev/net/tun"),
	)

	It("should say all of it at once", func() {
		m.programs["uname"], m.programs["nproc"] = "echo Darwin", "echo 1"
		delete(m.programs, "runc")
		delete(m.files, "/dev/net/tun")
		r := m.run("landscape")
		Expect(r.stderr).To(And(ContainSubstring("Darwin"), ContainSubstring("processors"), ContainSubstring("tun"),
			ContainSubstring("packages that would be installed then: runc"), ContainSubstring("REQUIREMENTS=warn")))
		Expect(r.calls).To(BeEmpty())
	})

	It("should let figures pass with REQUIREMENTS=warn, and nothing else", func() {
		m.programs["nproc"] = "echo 1"
		m.env = append(m.env, "REQUIREMENTS=warn")
		r := m.run("landscape")
		Expect(r.code).To(BeZero())
		Expect(r.stdout).To(ContainSubstring("1, 2 are needed"))
		m.programs["unshare"] = "exit 1"
		Expect(m.run("landscape").code).To(Equal(1))
	})

	It("should accept an older Go that fetches the newer one", func() {
		m.env = append(m.env, "FAKE_GO=go1.23.4", "FAKE_TOOLCHAIN=auto")
		Expect(m.run("test").code).To(BeZero())
	})

	It("should ask the proxy only when there are authorities to check it with, if need be after they are installed",
		func() {
			delete(m.files, "/etc/ssl/certs/ca-certificates.crt")
			m.env = append(m.env, "FAKE_PROXY=certificate signed by unknown authority")
			m.programs["apt-get"] += "\nmkdir -p \"$SETUP_ROOT/etc/ssl/certs\"; echo some " +
				">\"$SETUP_ROOT/etc/ssl/certs/ca-certificates.crt\""
			r := m.run("test")
			Expect(r.calls).To(ContainSubstring("install -y --no-install-recommends ca-certificates"))
			Expect(r.code).To(Equal(1))
			Expect(r.stderr).To(ContainSubstring("unknown authority"))
		})

	It("should refuse a purpose that it does not know", func() {
		r := m.run("everything")
		Expect(r.code).To(Equal(2))
		Expect(r.stderr).To(ContainSubstring(`unknown purpose "everything"; known: landscape, test, check, recovery`))
	})
})

// elsewhere are programs that only some commands use, which look for them themselves, and those that a test brings
// along.
var elsewhere = map[string]string{
	"go":       "must be there, and is looked at",
	"modprobe": "a machine without it is taken to have everything built in",
	"bash":     "essential",
	"sh":       "essential",
	"unshare":  "essential",
}

var _ = Describe("The programs that are called", func() {
	It("should be known to hack/setup.sh", func() {
		known := maps.Clone(elsewhere)
		for _, purpose := range []string{"landscape", "test", "recovery"} {
			for line := range strings.Lines(newMachine().run("--programs", purpose).stdout) {
				program, _, _ := strings.Cut(strings.TrimSpace(line), " ")
				known[program] = "installed"
			}
		}
		called := calledPrograms(repository)
		Expect(len(called)).To(BeNumerically(">", 4), "programs must be found")
		for _, program := range slices.Sorted(maps.Keys(called)) {
			Expect(known).To(HaveKey(program), "%s is called in %s: add it to the table of hack/setup.sh", program,
				called[program])
		}
	})
})
