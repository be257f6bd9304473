// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"context"

	"github.com/gardener/gardener/pkg/client/kubernetes"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/livecpm/livecpm/pkg/cli/access"
)

var _ = Describe("The history of migrations", func() {
	open := func(content string) *access.Garden {
		builder := fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme)
		if content != "" {
			builder = builder.WithObjects(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "garden",
				Name: "livecpm-history"}, Data: map[string]string{"history.json": content}})
		}
		return &access.Garden{Client: builder.Build(), Namespace: "garden-demo"}
	}

	It("should be read, and be empty if nothing was recorded yet", func() {
		Expect(open(`{"kind":"LiveMigrationHistory","records":[{"namespace":"a","name":"b","uid":"1"}]}`).
			History(context.Background())).To(HaveField("Records", ConsistOf(HaveField("Name", "b"))))
		Expect(open("").History(context.Background())).To(HaveField("Records", BeEmpty()))
		_, err := open("{").History(context.Background())
		Expect(err).To(MatchError(ContainSubstring("failed to read ConfigMap garden/livecpm-history")))
	})
})
