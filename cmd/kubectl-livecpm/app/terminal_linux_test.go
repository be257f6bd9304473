// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"

	"github.com/livecpm/livecpm/cmd/kubectl-livecpm/app"
	"github.com/livecpm/livecpm/pkg/cli/exit"
)

// openTerminal returns both ends of a terminal of the usual size: what is written to the second is read from the first.
func openTerminal() (master, terminal *os.File) {
	GinkgoHelper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { _ = master.Close() })
	Expect(unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)).To(Succeed())
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	Expect(err).NotTo(HaveOccurred())
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { _ = terminal.Close() })
	Expect(unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80})).To(Succeed())
	return master, terminal
}

var _ = Describe("A report on a terminal", func() {
	recording := filepath.Join("..", "..", "..", "pkg", "proof", "report", "testdata", "report.json")

	It("should be Markdown, and never HTML", func() {
		master, terminal := openTerminal()
		var errs bytes.Buffer
		run := func(args ...string) exit.Code {
			return app.Run(context.Background(), app.Streams{Out: terminal, Err: &errs}, args)
		}
		// A terminal takes only so much that nobody reads.
		read := make(chan []byte, 1024)
		go func() {
			defer close(read)
			for {
				part := make([]byte, 4096)
				n, err := master.Read(part)
				if err != nil {
					return
				}
				read <- part[:n]
			}
		}()
		var out bytes.Buffer
		done := make(chan exit.Code)
		go func() { done <- run("report", "--recording", recording) }()
		for ended := false; !ended || !bytes.Contains(out.Bytes(), []byte("# Live migration of garden-demo/live")); {
			select {
			case part := <-read:
				out.Write(part)
			case code := <-done:
				Expect(code).To(Equal(exit.Done), errs.String())
				ended = true
			}
		}
		Expect(out.String()).NotTo(ContainSubstring("<!DOCTYPE html>"))

		Expect(run("report", "--recording", recording, "-o", "html")).To(Equal(exit.Error))
		Expect(errs.String()).To(ContainSubstring("write it to a file with --file, or choose -o md"))
	})
})
