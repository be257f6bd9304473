// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package gateway_test

import (
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/standins/ingress/gateway"
)

var _ = Describe("ReadLabels", func() {
	write := func(content string) string {
		GinkgoHelper()
		file := filepath.Join(GinkgoT().TempDir(), "labels")
		Expect(os.WriteFile(file, []byte(content), 0o600)).To(Succeed())
		return file
	}

	It("should read what the kubelet writes", func() {
		Expect(gateway.ReadLabels(write("app=\"istio-ingressgateway\"\nistio=\"ingressgateway\"\nempty=\"\""))).
			To(Equal(map[string]string{"app": "istio-ingressgateway", "istio": "ingressgateway", "empty": ""}))
	})

	DescribeTable("should refuse what the kubelet would not write", func(content string) {
		_, err := gateway.ReadLabels(write(content))
		Expect(err).To(MatchError(ContainSubstring("pod's labels")))
	},
		Entry("a line without a value", "app"),
		Entry("a value without quotes", "app=istio-ingressgateway"),
	)

	It("should say that there is no file", func() {
		_, err := gateway.ReadLabels(filepath.Join(GinkgoT().TempDir(), "labels"))
		Expect(err).To(MatchError(os.ErrNotExist))
	})
})
