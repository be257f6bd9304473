// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package probe_test

import (
	"context"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/livecpm/livecpm/pkg/proof/probe"
	"github.com/livecpm/livecpm/test/patience"
)

var _ = Describe("The probe at a real kube-apiserver", Ordered, func() {
	var (
		ctx    = context.Background()
		access *rest.Config
		client kubernetes.Interface
	)
	BeforeAll(func() {
		SetDefaultEventuallyTimeout(patience.Eventually)
		environment := &envtest.Environment{ControlPlaneStartTimeout: patience.Start,
			ControlPlaneStopTimeout: patience.Stop}
		var err error
		access, err = environment.Start()
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(environment.Stop)
		client, err = kubernetes.NewForConfig(access)
		Expect(err).NotTo(HaveOccurred())

		finalizing, stop := context.WithCancel(ctx)
		finished := make(chan struct{})
		go func() {
			defer close(finished)
			wait.UntilWithContext(finalizing, func(ctx context.Context) { finalize(ctx, client) }, time.Second)
		}()
		DeferCleanup(func() {
			stop()
			<-finished
		})
	})

	It("should send all kinds of requests, none of which fails, and leave nothing behind", func() {
		p, err := probe.New(probe.Config{REST: access, WritesPerSecond: 56, ReadsPerSecond: 40, Keys: 10, Watches: 3,
			ListObjects: 1200, DrainTimeout: patience.Eventually, CleanupTimeout: patience.Eventually,
			RequestTimeout: patience.Start})
		Expect(err).NotTo(HaveOccurred())
		Expect(p.Start(ctx)).To(Succeed())
		requests := func() int64 { s := p.Snapshot(); return s.Writes + s.Reads }
		Eventually(requests).Should(BeNumerically(">", 1000))
		result, err := p.Stop(ctx)
		Expect(err).NotTo(HaveOccurred())

		Expect(result.Details.Incidents).To(BeEmpty())
		Expect(slices.DeleteFunc(result.Failures(), func(failure string) bool {
			// These depend on how busy the machine is.
			return strings.Contains(failure, "were not sent") ||
				strings.Contains(failure, "no write was acknowledged") ||
				strings.Contains(failure, "after its write, later than")
		})).To(BeEmpty())
		Expect(result.Details.Relists).To(BeZero())
		Expect(result.Details.Skipped).To(ConsistOf(ContainSubstring("metrics.k8s.io")))
		for _, kind := range []string{"create ConfigMap", "get ConfigMap", "list ConfigMap", "update ConfigMap",
			"merge patch ConfigMap", "apply ConfigMap", "delete ConfigMap", "create Sample", "update Sample",
			"update the status of Sample", "get Sample", "create Lease", "update Lease", "get Lease", "create Event"} {
			Expect(result.Details.Kinds).To(ContainElement(WithTransform(func(k probe.KindDetails) string {
				return k.Verb + " " + k.Kind
			}, Equal(kind))))
		}

		namespaces, err := client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		for _, namespace := range namespaces.Items {
			Expect(namespace.Name).NotTo(HavePrefix("livecpm-probe-"))
		}
		resources, err := client.Discovery().ServerGroups()
		Expect(err).NotTo(HaveOccurred())
		for _, group := range resources.Groups {
			Expect(group.Name).NotTo(HaveSuffix("probe.livecpm.gardener.cloud"))
		}
	})
})

// finalize does what kube-controller-manager does with namespaces that are deleted, as far as somebody waits for it.
func finalize(ctx context.Context, client kubernetes.Interface) {
	namespaces, err := client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	for i := range namespaces.Items {
		if namespace := &namespaces.Items[i]; namespace.Status.Phase == corev1.NamespaceTerminating {
			namespace.Spec.Finalizers = nil
			_, _ = client.CoreV1().Namespaces().Finalize(ctx, namespace, metav1.UpdateOptions{})
		}
	}
}
