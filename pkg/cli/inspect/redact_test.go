// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"encoding/json"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/cli/inspect"
)

var _ = Describe("Redaction", func() {
	DescribeTable("should take out of a text what may be secret, and leave the rest",
		func(text, expected string) { Expect(inspect.RedactText(text)).To(Equal(expected)) },
		Entry("a JSON Web Token", "got eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJtZSJ9.c2lnbmF0dXJl from it",
			"got REDACTED from it"),
		Entry("a header", "Authorization: Bearer abcdefgh12345", "REDACTED"),
		Entry("a private key", "x\n-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\ny",
			"x\nREDACTED\ny"),
		Entry("a private key that is cut off", "-----BEGIN PRIVATE KEY-----\nabc", "REDACTED"),
		Entry("a password", `{"user":"me","password":"one two"}`, `{"user":"me","REDACTED}`),
		Entry("credentials in a URL", "https://me:mine@example.org/path", "httpsREDACTEDexample.org/path"),
		Entry("nothing", "etcd-main-0 of garden-demo/live: token bucket, 3 secrets",
			"etcd-main-0 of garden-demo/live: "+
				"token bucket, 3 secrets"),
	)

	It("should take out of an object what may be secret, and leave what only names it", func() {
		var object map[string]any
		Expect(json.Unmarshal([]byte(`{
			"metadata": {"name": "kept-name", "managedFields": [{"manager": "kept-out"}],
				"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "hidden-1",
					"kept": "kept-annotation",
					"example.org/api-key": "hidden-2"}},
			"spec": {
				"oidcConfig": {"clientSecret": "hidden-3", "clientID": "kept-id"},
				"secretRef": {"name": "kept-secret", "namespace": "kept-ns"},
				"credentialsBindingName": "kept-binding", "automountServiceAccountToken": false,
				"clientTLSSecretRef": {"name": "kept-tls"}, "tokenExpirationSeconds": 3600,
				"imagePullSecrets": [{"name": "kept-pull"}],
				"credentials": {"user": "hidden-4", "pass": "hidden-5"},
				"tokens": ["hidden-6"],
				"containers": [{"name": "main", "image": "kept-image", "args": ["--token=hidden-7", "--kept=kept-arg"],
					"env": [{"name": "ANY", "value": "hidden-8"},
						{"name": "FROM", "valueFrom": {"secretKeyRef": {"name": "kept-ref", "key": "kept-key"}}}]}],
				"volumes": [{"name": "v", "secret": {"secretName": "kept-volume"}}],
				"inline": "-----BEGIN PRIVATE KEY-----\nhidden-9\n-----END PRIVATE KEY-----"
			},
			"status": {"state": {"raw": "hidden-10"}, "phase": "kept-phase",
				"conditions": [{"type": "kept-type", "message": "kept-message"}]}
		}`), &object)).To(Succeed())
		redacted, err := json.Marshal(inspect.RedactObject(object))
		Expect(err).NotTo(HaveOccurred())
		Expect(string(redacted)).NotTo(Or(ContainSubstring("hidden"), ContainSubstring("kept-out")))
		for _, kept := range []string{"name", "annotation", "id", "secret", "ns", "binding", "tls", "pull", "image",
			"arg",
			"ref", "key", "volume", "phase", "type", "message"} {
			Expect(string(redacted)).To(ContainSubstring(`kept-`+kept), kept)
		}
		Expect(strings.Count(string(redacted), inspect.Redacted)).To(BeNumerically(">=", 8))
	})

	It("should leave the state of an operation, which is a word", func() {
		Expect(inspect.RedactObject(map[string]any{"lastOperation": map[string]any{"state": "Processing"}})).
			To(Equal(map[string]any{"lastOperation": map[string]any{"state": "Processing"}}))
	})
})
