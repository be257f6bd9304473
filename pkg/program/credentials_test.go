// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package program_test

import (
	"context"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	testclock "k8s.io/utils/clock/testing"

	"github.com/livecpm/livecpm/pkg/program"
)

var _ = Describe("Watcher", func() {
	var (
		path  string
		clock *testclock.FakeClock
		ended chan error
		look  func()
		stop  context.CancelFunc
	)
	const kubeconfig = "{apiVersion: v1, kind: Config, " +
		"clusters: [{name: garden, cluster: {server: 'https://garden', certificate-authority: bundle.crt}}], " +
		"users: [{name: livecpm, user: {tokenFile: token}}]}"
	beside := func(name string) string { return filepath.Join(filepath.Dir(path), name) }

	BeforeEach(func() {
		path = filepath.Join(GinkgoT().TempDir(), "kubeconfig")
		for _, file := range []string{"bundle.crt", "token"} {
			Expect(os.WriteFile(beside(file), []byte("one"), 0o600)).To(Succeed())
		}
		Expect(os.WriteFile(path, []byte(kubeconfig), 0o600)).To(Succeed())
		clock = testclock.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))

		watcher, err := program.NewCredentialsWatcher(path, clock)
		Expect(err).NotTo(HaveOccurred())
		Expect(watcher.NeedLeaderElection()).To(BeFalse())

		var ctx context.Context
		ctx, stop = context.WithCancel(context.Background())
		ended = make(chan error, 1)
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			ended <- watcher.Start(ctx)
		}()
		Eventually(clock.HasWaiters).Should(BeTrue())
		DeferCleanup(func() {
			stop()
			Eventually(stopped).Should(BeClosed())
		})
		look = func() { clock.Step(program.CredentialsPeriod) }
	})

	It("should end the program when the kubeconfig has changed", func() {
		Expect(os.WriteFile(path, []byte("two"), 0o600)).To(Succeed())
		look()
		Eventually(ended).Should(Receive(MatchError(program.ErrCredentialsChanged)))
	})

	It("should not end it for a file that is unreadable, empty or as it was", func() {
		for _, disturb := range []func() error{
			func() error { return os.WriteFile(path, []byte(kubeconfig), 0o600) },
			func() error { return os.WriteFile(path, nil, 0o600) },
			func() error { return os.Remove(path) },
		} {
			Expect(disturb()).To(Succeed())
			look()
			Consistently(ended, 30*time.Millisecond).ShouldNot(Receive())
		}
		Expect(os.WriteFile(path, []byte("two"), 0o600)).To(Succeed())
		look()
		Eventually(ended).Should(Receive(MatchError(program.ErrCredentialsChanged)))
	})

	It("should end the program when the CA has changed that the kubeconfig names", func() {
		Expect(os.WriteFile(beside("bundle.crt"), []byte("two"), 0o600)).To(Succeed())
		look()
		Eventually(ended).Should(Receive(MatchError(program.ErrCredentialsChanged)))
	})

	It("should leave a new token to the clients, which read it by themselves", func() {
		Expect(os.WriteFile(beside("token"), []byte("two"), 0o600)).To(Succeed())
		look()
		Consistently(ended, 30*time.Millisecond).ShouldNot(Receive())
	})

	It("should end with its context and without an error", func() {
		stop()
		Eventually(ended).Should(Receive(BeNil()))
	})

	It("should not start with a file that is not there", func() {
		_, err := program.NewCredentialsWatcher(filepath.Join(GinkgoT().TempDir(), "none"), clock)
		Expect(err).To(MatchError(ContainSubstring("failed to read the kubeconfig for the garden")))
	})

	It("should not start with a kubeconfig that is none, or whose CA is not there", func() {
		Expect(os.WriteFile(path, []byte("]"), 0o600)).To(Succeed())
		_, err := program.NewCredentialsWatcher(path, clock)
		Expect(err).To(MatchError(ContainSubstring("failed to decode the kubeconfig for the garden")))

		Expect(os.WriteFile(path, []byte(kubeconfig), 0o600)).To(Succeed())
		Expect(os.Remove(beside("bundle.crt"))).To(Succeed())
		_, err = program.NewCredentialsWatcher(path, clock)
		Expect(err).To(MatchError(ContainSubstring("failed to read the CA")))
	})
})
