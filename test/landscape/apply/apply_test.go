// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package apply_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/livecpm/livecpm/test/landscape/apply"
)

const manifests = `---
# only a comment
---
apiVersion: v1
kind: ConfigMap
metadata: {name: one, namespace: default}
data: {greeting: "{{ .Greeting }}"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: two, namespace: default}
`

var _ = Describe("Apply", func() {
	It("should render, split and apply manifests repeatedly", func() {
		ctx, c := context.Background(), fake.NewClientBuilder().Build()
		for _, greeting := range []string{"hello", "hello", "good day"} {
			rendered, err := apply.Render("test", manifests, map[string]string{"Greeting": greeting})
			Expect(err).NotTo(HaveOccurred())
			Expect(apply.Manifests(ctx, c, rendered)).To(Succeed())
			one := &corev1.ConfigMap{}
			Expect(c.Get(ctx, client.ObjectKey{Namespace: "default", Name: "one"}, one)).To(Succeed())
			Expect(one.Data).To(HaveKeyWithValue("greeting", greeting))
			Expect(c.Get(ctx, client.ObjectKey{Namespace: "default", Name: "two"}, &corev1.ConfigMap{})).To(Succeed())
		}
	})

	It("should refuse a template with a missing value", func() {
		_, err := apply.Render("test", manifests, map[string]string{})
		Expect(err).To(MatchError(ContainSubstring("Greeting")))
	})

	It("should say which manifest cannot be read", func() {
		_, err := apply.Decode([]byte("kind: A\n---\nkind: [\n"))
		Expect(err).To(MatchError(ContainSubstring("manifest 2")))
	})
})
