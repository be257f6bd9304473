// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package garden_test

import (
	"errors"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	. "github.com/livecpm/livecpm/test/landscape/garden"
)

var _ = Describe("Buckets", func() {
	var (
		buckets *Buckets
		frozen  map[string]bool
		// late is written into a bucket before it is frozen.
		late string
	)

	put := func(elem ...string) {
		file := filepath.Join(append([]string{buckets.Folder}, elem...)...)
		ExpectWithOffset(1, os.MkdirAll(filepath.Dir(file), 0o755)).To(Succeed())
		ExpectWithOffset(1, os.WriteFile(file, []byte(filepath.Base(file)), 0o600)).To(Succeed())
	}

	BeforeEach(func() {
		frozen, late = map[string]bool{}, ""
		buckets = &Buckets{Folder: GinkgoT().TempDir(),
			Freeze: func(folder string) error {
				if late != "" {
					put(filepath.Base(folder), "shoot", late)
					late = ""
				}
				frozen[filepath.Base(folder)] = true
				return nil
			},
			Thaw: func(folder string) error {
				frozen[filepath.Base(folder)] = false
				return nil
			},
			Frozen: func(folder string) (bool, error) { return frozen[filepath.Base(folder)], nil },
		}
		put("one", "shoot", "full")
		put("two", "other", "full")
	})

	It("should take all buckets away and put back what was in them", func() {
		Expect(buckets.Hidden()).To(BeFalse())
		Expect(buckets.Hide()).To(Succeed())
		Expect(buckets.Hidden()).To(BeTrue())
		Expect(filepath.Join(buckets.Folder, "one")).To(BeADirectory(), "pods have it mounted")
		Expect(os.ReadDir(filepath.Join(buckets.Folder, "one"))).To(BeEmpty())
		Expect(frozen).To(Equal(map[string]bool{"one": true, "two": true}))

		Expect(buckets.Show()).To(Succeed())
		Expect(buckets.Hidden()).To(BeFalse())
		Expect(filepath.Join(buckets.Folder, "one", "shoot", "full")).To(BeARegularFile())
		Expect(filepath.Join(buckets.Folder, "two", "other", "full")).To(BeARegularFile())
		Expect(frozen).To(Equal(map[string]bool{"one": false, "two": false}))
		Expect(os.ReadDir(buckets.Folder)).To(HaveLen(2), "nothing else is left")
		Expect(buckets.Show()).To(Succeed(), "a second time")
	})

	It("should lose nothing that is written while a bucket goes", func() {
		late = "delta"
		Expect(buckets.Hide()).To(Succeed())
		Expect(buckets.Hidden()).To(BeTrue())
		Expect(buckets.Show()).To(Succeed())
		Expect(filepath.Join(buckets.Folder, "one", "shoot", "full")).To(BeARegularFile())
		Expect(filepath.Join(buckets.Folder, "one", "shoot", "delta")).To(BeARegularFile())
	})

	It("should put back what a program has hidden that was killed in between", func() {
		broken := errors.New("killed")
		buckets.Freeze = func(string) error { return broken }
		Expect(buckets.Hide()).To(MatchError(broken))
		put("one", "shoot", "new")
		Expect(buckets.Hidden()).To(BeFalse())
		Expect(buckets.Show()).To(Succeed())
		Expect(filepath.Join(buckets.Folder, "one", "shoot", "full")).To(BeARegularFile())
		Expect(filepath.Join(buckets.Folder, "one", "shoot", "new")).To(BeARegularFile())
	})

	It("should not hide what is not there", func() {
		buckets.Folder = filepath.Join(buckets.Folder, "none")
		Expect(buckets.Hide()).To(MatchError(ContainSubstring("there is none in")))
		Expect(buckets.Hidden()).To(BeFalse())
		Expect(buckets.Show()).To(Succeed())
	})
})
