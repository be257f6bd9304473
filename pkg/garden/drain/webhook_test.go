// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package drain_test

import (
	"context"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1alpha1 "github.com/livecpm/livecpm/pkg/apis/config/v1alpha1"
	"github.com/livecpm/livecpm/pkg/garden/drain"
	"github.com/livecpm/livecpm/test/patience"
)

var _ = Describe("Webhook", func() {
	var (
		ctx      = context.Background()
		status   int
		received chan *http.Request
		bodies   chan string
		server   *httptest.Server
		config   configv1alpha1.DrainWebhook
		notice   = drain.Notice{ID: "one", Time: begin, Namespace: namespace, Name: "x", Purpose: "testing",
			Seed: "seed-a", Destination: "seed-b", Way: "Live", NotBefore: begin.Add(time.Hour)}
		// file writes a file and returns its path.
		file = func(content string) string {
			GinkgoHelper()
			path := filepath.Join(GinkgoT().TempDir(), "file")
			Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
			return path
		}
		post = func() error {
			GinkgoHelper()
			webhook, err := drain.NewWebhook(config)
			Expect(err).NotTo(HaveOccurred())
			return webhook.Notify(ctx, notice)
		}
	)

	BeforeEach(func() {
		status, received, bodies = http.StatusNoContent, make(chan *http.Request, 10), make(chan string, 10)
		server = httptest.NewTLSServer(http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
			content, err := io.ReadAll(request.Body)
			if err != nil {
				panic(err)
			}
			received <- request
			bodies <- string(content)
			answer.Header().Set("Location", "/elsewhere")
			answer.WriteHeader(status)
		}))
		DeferCleanup(server.Close)
		config = configv1alpha1.DrainWebhook{URL: server.URL + "/hook?key=secret",
			CAFile: file(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
				Bytes: server.Certificate().Raw}))), Timeout: &metav1.Duration{Duration: patience.Eventually}}
	})

	It("should post a CloudEvent", func() {
		Expect(post()).To(Succeed())
		got := <-received
		Expect(got.Method).To(Equal(http.MethodPost))
		Expect(got.URL.String()).To(Equal("/hook?key=secret"))
		Expect(got.Header).To(HaveKeyWithValue("Content-Type", []string{"application/cloudevents+json"}))
		Expect(got.Header).NotTo(HaveKey("Authorization"))
		Expect(<-bodies).To(MatchJSON(`{"specversion":"1.0","id":"one","source":"/livecpm/seeds/seed-a",
			"type":"io.livecpm.drain.move.announced","subject":"garden-demo/x","time":"2026-11-20T10:00:00Z",
			"datacontenttype":"application/json","data":{"namespace":"garden-demo","name":"x","purpose":"testing",
			"seed":"seed-a","destination":"seed-b","way":"Live","notBefore":"2026-11-20T11:00:00Z"}}`))
	})

	It("should send the token, and read it each time", func() {
		config.TokenFile = file("first\n")
		webhook, err := drain.NewWebhook(config)
		Expect(err).NotTo(HaveOccurred())
		Expect(webhook.Notify(ctx, notice)).To(Succeed())
		Expect((<-received).Header.Get("Authorization")).To(Equal("Bearer first"))
		Expect(os.WriteFile(config.TokenFile, []byte("second"), 0o600)).To(Succeed())
		Expect(webhook.Notify(ctx, notice)).To(Succeed())
		Expect((<-received).Header.Get("Authorization")).To(Equal("Bearer second"))
		Expect(os.Remove(config.TokenFile)).To(Succeed())
		Expect(webhook.Notify(ctx, notice)).To(MatchError(ContainSubstring("failed to read the token")))
		Expect(received).To(BeEmpty())
	})

	DescribeTable("should fail for any other answer, and follow nobody", func(answer int) {
		status = answer
		Expect(post()).To(MatchError(And(ContainSubstring("answered %d", answer), Not(ContainSubstring("secret")))))
		Expect((<-received).URL.Path).To(Equal("/hook"))
		Expect(received).To(BeEmpty())
	},
		Entry("an error", http.StatusInternalServerError),
		Entry("not permitted", http.StatusForbidden),
		Entry("somewhere else", http.StatusTemporaryRedirect),
	)

	It("should trust nobody but the authorities", func() {
		config.CAFile = ""
		Expect(post()).To(MatchError(And(ContainSubstring("failed to post to the drain's webhook"),
			ContainSubstring("certificate"), Not(ContainSubstring("secret")))))
		Expect(received).To(BeEmpty())
	})

	It("should fail without telling the URL if nobody answers", func() {
		server.Close()
		Expect(post()).To(MatchError(And(ContainSubstring("connection refused"), Not(ContainSubstring("secret")))))
	})

	It("should give up when its time is over", func() {
		config.Timeout.Duration = 0
		Expect(post()).To(MatchError(context.DeadlineExceeded))
	})

	It("should not be made without the authorities that it is to trust", func() {
		config.CAFile = file("none")
		_, err := drain.NewWebhook(config)
		Expect(err).To(MatchError(ContainSubstring("there is no certificate in " + config.CAFile)))
		config.CAFile += ".missing"
		_, err = drain.NewWebhook(config)
		Expect(err).To(MatchError(os.ErrNotExist))
	})
})
