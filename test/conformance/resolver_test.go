// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/livecpm/livecpm/test/conformance"
	"github.com/livecpm/livecpm/test/patience"
)

const patient = patience.Eventually

// contextOf returns a context that ends for a cause of its own.
func contextOf(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	return ctx, func() { cancel(errors.New("enough")) }
}

var _ = Describe("The resolver of the programs", func() {
	It("should be the given one, while that of the machine stays", func(ctx SpecContext) {
		if err := exec.Command("unshare", "--mount", "true").Run(); err != nil {
			Skip("NOT TESTED, this needs root: " + err.Error())
		}
		before, err := os.ReadFile("/etc/resolv.conf")
		Expect(err).NotTo(HaveOccurred())
		own := filepath.Join(GinkgoT().TempDir(), "resolv.conf")
		Expect(os.WriteFile(own, []byte("nameserver 192.0.2.1\n"), 0o644)).To(Succeed())
		command := append(conformance.ResolvingBy(own), "sh", "-c", `cat /etc/resolv.conf; echo "$0, $1"`, "a b", "c")
		output, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), string(output))
		Expect(strings.Split(string(output), "\n")).To(Equal([]string{"nameserver 192.0.2.1", "a b, c", ""}))
		Expect(os.ReadFile("/etc/resolv.conf")).To(Equal(before))
	})
})

var _ = Describe("The access of the programs", func() {
	It("should be that of the given client, in a file that only its owner reads", func() {
		file := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
		access := &rest.Config{Host: "https://api.shoot.example", BearerToken: "secret",
			TLSClientConfig: rest.TLSClientConfig{CAData: []byte("ca"), CertData: []byte("cert"),
				KeyData: []byte("key")}}
		Expect(conformance.WriteKubeconfig(file, access)).To(Succeed())
		info, err := os.Stat(file)
		Expect(err).NotTo(HaveOccurred())
		Expect(info.Mode().Perm()).To(BeEquivalentTo(0o600))
		read, err := clientcmd.BuildConfigFromFlags("", file)
		Expect(err).NotTo(HaveOccurred())
		Expect(read.Host).To(Equal(access.Host))
		Expect(read.BearerToken).To(Equal(access.BearerToken))
		Expect(read.TLSClientConfig).To(Equal(access.TLSClientConfig))
	})
})
