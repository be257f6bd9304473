// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package machine_test

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/landscape/machine"
)

func write(content string, elem ...string) {
	file := filepath.Join(elem...)
	ExpectWithOffset(1, os.MkdirAll(filepath.Dir(file), 0o755)).To(Succeed())
	ExpectWithOffset(1, os.WriteFile(file, []byte(content), 0o644)).To(Succeed())
}

func read(elem ...string) string {
	content, err := os.ReadFile(filepath.Join(elem...))
	ExpectWithOffset(1, err).NotTo(HaveOccurred())
	return strings.TrimSpace(string(content))
}

var _ = Describe("Sysctls", func() {
	var (
		proc, dir string
		sysctls   machine.Sysctls
	)

	BeforeEach(func() {
		proc, dir = GinkgoT().TempDir(), filepath.Join(GinkgoT().TempDir(), "run")
		sysctls = machine.Sysctls{Dir: dir, Proc: proc}
		for key, value := range map[string]string{
			"vm/overcommit_memory": "0\n", "vm/panic_on_oom": "0\n", "kernel/panic": "1\n",
			"kernel/panic_on_oops":          "0\n",
			"fs/inotify/max_user_instances": "128\n", "fs/inotify/max_user_watches": "1000000\n",
		} {
			write(value, proc, key)
		}
	})

	kubelet := func() {
		write("1", proc, "vm/overcommit_memory")
		write("10", proc, "kernel/panic")
		write("1", proc, "kernel/panic_on_oops")
	}

	It("should raise limits, leave higher ones alone, and put everything back", func() {
		Expect(sysctls.Acquire("one")).To(Succeed())
		Expect(read(proc, "fs/inotify/max_user_instances")).To(Equal("8192"))
		Expect(read(proc, "fs/inotify/max_user_watches")).To(Equal("1000000"))
		kubelet()
		Expect(sysctls.Acquire("one")).To(Succeed(), "a second time")

		Expect(sysctls.Release("one")).To(BeTrue())
		Expect(read(proc, "vm/overcommit_memory")).To(Equal("0"))
		Expect(read(proc, "kernel/panic")).To(Equal("1"))
		Expect(read(proc, "kernel/panic_on_oops")).To(Equal("0"))
		Expect(read(proc, "fs/inotify/max_user_instances")).To(Equal("128"))
		Expect(dir).NotTo(BeADirectory())
	})

	It("should put the first one's values back when the last one goes", func() {
		Expect(sysctls.Acquire("one")).To(Succeed())
		kubelet()
		Expect(sysctls.Acquire("two")).To(Succeed())
		Expect(sysctls.Release("one")).To(BeFalse())
		Expect(read(proc, "kernel/panic")).To(Equal("10"))
		Expect(sysctls.Release("two")).To(BeTrue())
		Expect(read(proc, "kernel/panic")).To(Equal("1"))
	})

	It("should have nothing to put back when nothing was recorded", func() {
		Expect(sysctls.Release("one")).To(BeTrue())
		Expect(read(proc, "kernel/panic")).To(Equal("1"))
	})
})

var _ = Describe("Folders", func() {
	It("should remove what it made and nothing else", func() {
		root := GinkgoT().TempDir()
		folders := machine.Folders{Record: filepath.Join(root, "record")}
		Expect(os.Mkdir(filepath.Join(root, "there"), 0o755)).To(Succeed())
		Expect(folders.Make(filepath.Join(root, "there", "a", "b"))).To(Succeed())
		Expect(folders.Make(filepath.Join(root, "used"))).To(Succeed())
		write("x", root, "used", "file")

		Expect(folders.Remove()).To(Succeed())
		Expect(filepath.Join(root, "there")).To(BeADirectory())
		Expect(filepath.Join(root, "there", "a")).NotTo(BeADirectory())
		Expect(filepath.Join(root, "used")).To(BeADirectory())
		Expect(folders.Remove()).To(Succeed(), "a second time")
	})
})

var _ = DescribeTable("OwnCgroup", func(lines, hierarchy, expected string) {
	Expect(machine.OwnCgroup(lines, hierarchy)).To(Equal(expected))
},
	Entry("version 1", "5:memory:/a\n4:cpu,cpuacct:/b/c\n0::/d\n", "cpuacct", "/b/c"),
	Entry("version 2", "0::/user.slice/session.scope\n", "", "/user.slice/session.scope"),
	Entry("a path with a colon", "3:cpu:/a:b\n", "cpu", "/a:b"),
	Entry("a hierarchy that is not there", "3:cpu:/a\n", "pids", "/"),
)

var _ = Describe("Cgroups", func() {
	It("should put processes out of a cgroup that is to be removed", func() {
		root := GinkgoT().TempDir()
		cgroups := machine.Cgroups{Root: root, Unified: true}
		Expect(cgroups.Evict("garden", "clients")).To(Succeed())

		Expect(os.MkdirAll(filepath.Join(root, "garden", "clients"), 0o755)).To(Succeed())
		Expect(os.WriteFile(filepath.Join(root, "garden", "clients", "cgroup.procs"), []byte("41\n42\n"), 0o600)).
			To(Succeed())
		Expect(cgroups.Evict("garden", "clients")).To(Succeed())
		// The file of a real cgroup takes one after the other.
		Expect(os.ReadFile(filepath.Join(root, "cgroup.procs"))).To(BeEquivalentTo("42"))
	})

	var root string

	BeforeEach(func() { root = GinkgoT().TempDir() })

	It("should make and remove a cgroup in every hierarchy of version 1", func() {
		for _, hierarchy := range []string{"cpu,cpuacct", "memory", "pids", "unified"} {
			Expect(os.Mkdir(filepath.Join(root, hierarchy), 0o755)).To(Succeed())
		}
		Expect(os.Symlink("cpu,cpuacct", filepath.Join(root, "cpu"))).To(Succeed())
		write("1024", root, "cpu,cpuacct", "node", "cpu.shares")
		write("0-1\n", root, "cpuset", "cpuset.cpus")
		write("0\n", root, "cpuset", "cpuset.mems")
		cgroups := machine.Cgroups{Root: root}

		Expect(cgroups.Ensure("node", machine.WeightSeed)).To(Succeed())
		Expect(cgroups.Ensure("node", machine.WeightSeed)).To(Succeed(), "a second time")
		Expect(filepath.Join(root, "cpu,cpuacct", "node")).To(BeADirectory())
		Expect(read(root, "cpuset", "node", "cpuset.cpus")).To(Equal("0-1"))
		Expect(read(root, "cpuset", "node", "cpuset.mems")).To(Equal("0"))
		Expect(cgroups.EnsureLeaf("node", "daemons")).To(ConsistOf(
			filepath.Join(root, "cpu", "node", "daemons"), filepath.Join(root, "memory", "node", "daemons"),
			filepath.Join(root, "pids", "node", "daemons")))

		// Unlike here, the files of a real cgroup vanish with its folder.
		Expect(os.Remove(filepath.Join(root, "cpuset", "node", "cpuset.cpus"))).To(Succeed())
		Expect(os.Remove(filepath.Join(root, "cpuset", "node", "cpuset.mems"))).To(Succeed())
		Expect(os.Remove(filepath.Join(root, "cpu,cpuacct", "node", "cpu.shares"))).To(Succeed())
		Expect(cgroups.Remove("node")).To(Succeed())
		Expect(cgroups.Remove("node")).To(Succeed(), "a second time")
		Expect(filepath.Join(root, "memory", "node")).NotTo(BeADirectory())
		Expect(filepath.Join(root, "memory")).To(BeADirectory())
	})

	It("should weigh seeds, garden and clients in either version", func() {
		write("1024", root, "cpu", "node", "cpu.shares")
		Expect(machine.Cgroups{Root: root}.Ensure("node", machine.WeightSeed)).To(Succeed())
		Expect(read(root, "cpu", "node", "cpu.shares")).To(Equal("65536"))
		write("1024", root, "cpu", "node", "one", "cpu.shares")
		Expect(machine.Cgroups{Root: root}.Ensure("node/one", machine.WeightNode)).To(Succeed())
		Expect(read(root, "cpu", "node", "one", "cpu.shares")).To(Equal("1024"), "as the daemons beside it have")
		Expect(read(root, "cpu", "node", "cpu.shares")).To(Equal("65536"))

		root = GinkgoT().TempDir()
		write("cpu\n", root, "cgroup.controllers")
		write("cpu\n", root, "cgroup.subtree_control")
		write("cpu\n", root, "node", "cgroup.controllers")
		write("cpu\n", root, "node", "cgroup.subtree_control")
		write("100", root, "node", "cpu.weight")
		cgroups := machine.Cgroups{Root: root, Unified: true}
		Expect(cgroups.Ensure("node", machine.WeightClients)).To(Succeed())
		Expect(read(root, "node", "cpu.weight")).To(Equal("3200"))
		for _, weight := range []machine.Weight{machine.WeightSeed, machine.WeightGarden, machine.WeightClients} {
			Expect(weight).To(And(BeNumerically(">", 1), BeNumerically("<=", 100)), "what version 2 takes")
		}
	})

	It("should not go on without weights", func() {
		write("", root, "cgroup.controllers")
		write("", root, "cgroup.subtree_control")
		write("", root, "node", "cgroup.controllers")
		write("", root, "node", "cgroup.subtree_control")
		Expect(machine.Cgroups{Root: root, Unified: true}.Ensure("node", machine.WeightSeed)).
			To(MatchError(ContainSubstring("has the controller cpu")))
	})

	It("should not put processes where version 2 does not take them", func() {
		cgroups := machine.Cgroups{Root: root, Unified: true}
		write("41\n", root, "garden", "clients", "cgroup.procs")
		write("", root, "livecpm-outside", "cgroup.procs")
		Expect(cgroups.Evict("garden", "clients")).To(Succeed())
		Expect(read(root, "livecpm-outside", "cgroup.procs")).To(Equal("41"))
		Expect(filepath.Join(root, "cgroup.procs")).NotTo(BeAnExistingFile())
	})

	It("should hand the controllers down in version 2", func() {
		write("cpuset cpu io memory pids misc\n", root, "cgroup.controllers")
		write("cpu io memory pids\n", root, "cgroup.subtree_control")
		write("cpuset cpu io memory pids\n", root, "node", "cgroup.controllers")
		write("cpuset cpu io memory pids\n", root, "node", "cgroup.subtree_control")
		write("100", root, "node", "cpu.weight")
		cgroups := machine.Cgroups{Root: root, Unified: true}

		Expect(cgroups.Ensure("node", machine.WeightSeed)).To(Succeed())
		Expect(read(root, "cgroup.subtree_control")).To(Equal("+cpuset"), "only what was not enabled yet")
		Expect(read(root, "node", "cgroup.subtree_control")).To(Equal("cpuset cpu io memory pids"))
		Expect(cgroups.EnsureLeaf("node", "daemons")).To(ConsistOf(filepath.Join(root, "node", "daemons")))
	})
})

var _ = Describe("Usage", func() {
	var root string

	BeforeEach(func() { root = GinkgoT().TempDir() })

	It("should be read from version 1", func() {
		write("cache 5\nrss 7\ntotal_cache 9\ntotal_rss 4096\n", root, "memory", "node", "memory.stat")
		write("2000000000\n", root, "cpuacct", "node", "cpuacct.usage")
		Expect(machine.Cgroups{Root: root}.Usage("node")).To(Equal(machine.Usage{Memory: 4096, CPU: 2 * time.Second}))
	})

	It("should be read from version 2", func() {
		write("anon 4096\nfile 9\n", root, "node", "memory.stat")
		write("usage_usec 2000000\nuser_usec 1\n", root, "node", "cpu.stat")
		Expect(machine.Cgroups{Root: root, Unified: true}.Usage("node")).
			To(Equal(machine.Usage{Memory: 4096, CPU: 2 * time.Second}))
	})

	It("should be unknown without a cgroup", func() {
		_, err := machine.Cgroups{Root: root}.Usage("node")
		Expect(err).To(MatchError(os.ErrNotExist))
	})
})
