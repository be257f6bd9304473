// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/landscape/pki"
	"github.com/livecpm/livecpm/test/standins/vpn/tunnel"
)

// mount writes certificates into the folder as Gardener's pods have them.
func mount(folder string, authority *pki.CA, name string) {
	GinkgoHelper()
	identity, err := authority.Ensure(name, pki.Request{CommonName: name, DNSNames: []string{name}})
	Expect(err).NotTo(HaveOccurred())
	for to, from := range map[string]string{"ca.crt": authority.File(), "tls.crt": identity.CertFile,
		"tls.key": identity.KeyFile} {
		content, err := os.ReadFile(from)
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(filepath.Join(folder, to), content, 0o600)).To(Succeed())
	}
}

var _ = Describe("run", func() {
	It("should have nothing to set up, and refuse what it does not know", func() {
		Expect(run(context.Background(), logr.Discard(), "vpn-server", []string{"setup"})).To(Succeed())
		Expect(run(context.Background(), logr.Discard(), "vpn-server", []string{"dance"})).
			To(MatchError(`unknown command "dance"`))
	})
})

var _ = Describe("ask", func() {
	It("should tell what probes want to know", func() {
		server := &tunnel.Server{Log: logr.Discard()}
		front := httptest.NewServer(server)
		Expect(ask(context.Background(), front.URL+"/livez")).To(Succeed())
		Expect(ask(context.Background(), front.URL+"/readyz")).To(MatchError(ContainSubstring("503")),
			"no client is connected")
		front.Close()
		Expect(ask(context.Background(), front.URL+"/livez")).NotTo(Succeed())
	})
})

var _ = Describe("The proxy", func() {
	var (
		authority *pki.CA
		folder    string
		address   string
		client    *tls.Config
	)

	BeforeEach(func() {
		var err error
		authority, err = pki.EnsureCA(GinkgoT().TempDir(), "vpn")
		Expect(err).NotTo(HaveOccurred())
		folder = GinkgoT().TempDir()

		inside := httptest.NewServer(
			http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = w.Write([]byte("inside " + r.URL.Path))
			}))
		DeferCleanup(inside.Close)
		listener, err := net.Listen("tcp4", "127.0.0.1:0")
		Expect(err).NotTo(HaveOccurred())
		address = listener.Addr().String()
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() {
			ended <- frontProxy{log: logr.Discard(), config: certificates(folder),
				server: inside.Listener.Addr().String()}.accept(ctx, listener)
		}()
		DeferCleanup(func() {
			cancel()
			Eventually(ended).Should(Receive(BeNil()))
		})

		own := GinkgoT().TempDir()
		mount(own, authority, "kube-apiserver")
		client, err = certificates(own)()
		Expect(err).NotTo(HaveOccurred())
		client.ServerName = "vpn-seed-server"
	})

	get := func(config *tls.Config) (string, error) {
		response, err := (&http.Client{Transport: &http.Transport{TLSClientConfig: config,
			DisableKeepAlives: true}}).Get("https://" + address + "/path")
		if err != nil {
			return "", err
		}
		defer func() { _ = response.Body.Close() }()
		content, err := io.ReadAll(response.Body)
		return string(content), err
	}

	It("should take off TLS, with the certificates that are mounted at the time", func() {
		_, err := get(client)
		Expect(err).To(HaveOccurred(), "nothing is mounted yet")
		mount(folder, authority, "vpn-seed-server")
		Expect(get(client)).To(Equal("inside /path"))
	})

	It("should serve nobody without a certificate of the VPN", func() {
		mount(folder, authority, "vpn-seed-server")
		stranger := client.Clone()
		stranger.Certificates = nil
		_, err := get(stranger)
		Expect(err).To(HaveOccurred())
		Expect(get(client)).To(Equal("inside /path"))
	})
})

var _ = Describe("certificates", func() {
	It("should say which one is missing", func() {
		folder := GinkgoT().TempDir()
		_, err := certificates(folder)()
		Expect(err).To(MatchError(ContainSubstring("ca.crt")))
	})
})
