// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package machine_test

import (
	"errors"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"

	"github.com/livecpm/livecpm/test/landscape/machine"
)

var _ = Describe("Freeze", func() {
	It("should keep everybody from changing what is in a folder", func() {
		folder := GinkgoT().TempDir()
		write("x", folder, "there")
		err := machine.Freeze(folder)
		if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.EOPNOTSUPP) {
			Skip("only root may freeze a folder, and not every file system knows how: " + err.Error())
		}
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { Expect(machine.Thaw(folder)).To(Succeed()) })
		Expect(machine.Frozen(folder)).To(BeTrue())
		Expect(os.WriteFile(filepath.Join(folder, "new"), nil, 0o600)).To(MatchError(unix.EPERM))
		Expect(os.Remove(filepath.Join(folder, "there"))).To(MatchError(unix.EPERM))

		Expect(machine.Thaw(folder)).To(Succeed())
		Expect(machine.Frozen(folder)).To(BeFalse())
		Expect(os.WriteFile(filepath.Join(folder, "new"), nil, 0o600)).To(Succeed())
		Expect(os.Remove(filepath.Join(folder, "there"))).To(Succeed())
	})

	It("should say which folder is not there", func() {
		_, err := machine.Frozen("/does/not/exist")
		Expect(err).To(MatchError(ContainSubstring("failed to open folder /does/not/exist")))
	})
})
