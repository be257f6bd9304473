// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package thread_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"

	"github.com/livecpm/livecpm/test/thread"
)

// envFromMain has the program of the tests call the package from its main function and its first thread, as a command
// does.
const envFromMain = "LIVECPM_TEST_THREAD_FROM_MAIN"

// fromMain returns 1 if what is called ran on the first thread, which cannot end before the process does.
func fromMain() int {
	// With one processor the next goroutine runs on the thread on which the one before has begun to wait.
	runtime.GOMAXPROCS(1)
	for range 100 {
		if err := thread.Run(func() error {
			if unix.Gettid() == os.Getpid() {
				return errors.New("it ran on the first thread")
			}
			return nil
		}); err != nil {
			fmt.Println(err)
			return 1
		}
	}
	return 0
}

var _ = Describe("A thread of its own", func() {
	It("should end with the function, and take along what it has changed", func() {
		var tid int
		Expect(thread.Run(func() error {
			tid = unix.Gettid()
			return unix.Unshare(unix.CLONE_FS)
		})).To(Succeed())
		Eventually(func() string { return fmt.Sprintf("/proc/self/task/%d", tid) }, "30s").ShouldNot(BeADirectory())
	})

	It("should return the error of the function", func() {
		failed := errors.New("failed")
		Expect(thread.Run(func() error { return failed })).To(MatchError(failed))
	})

	It("should never be the first thread of the process, which does not end before the process does", func() {
		program, err := os.Executable()
		Expect(err).NotTo(HaveOccurred())
		command := exec.Command(program)
		command.Env = append(os.Environ(), envFromMain+"=yes")
		output, err := command.CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), string(output))
	})
})
