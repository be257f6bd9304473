// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package placeholders_test

import (
	"context"
	"testing"

	"github.com/Masterminds/semver/v3"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/gardener/gardener/pkg/client/kubernetes"
	"github.com/gardener/gardener/pkg/component"
	"github.com/gardener/gardener/pkg/component/etcd/etcd"
	"github.com/gardener/gardener/pkg/component/observability/monitoring/prometheusoperator"

	"github.com/livecpm/livecpm/test/landscape/apply"
	"github.com/livecpm/livecpm/test/landscape/seedsetup"
	"github.com/livecpm/livecpm/test/patience"
)

func TestPlaceholders(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Integration Placeholders Suite")
}

var (
	ctx  = context.Background()
	seed client.Client
)

// The kube-apiserver is the one that the seeds of the landscape have.
var _ = BeforeSuite(func() {
	environment := &envtest.Environment{ControlPlaneStartTimeout: patience.Start,
		ControlPlaneStopTimeout: patience.Stop}
	config, err := environment.Start()
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(environment.Stop)
	seed, err = client.New(config, client.Options{Scheme: kubernetes.SeedScheme})
	Expect(err).NotTo(HaveOccurred())

	crds, err := prometheusoperator.NewCRDs(seed)
	Expect(err).NotTo(HaveOccurred())
	Expect(component.OpWait(crds).Deploy(ctx)).To(Succeed())

	etcds, err := etcd.NewCRD(seed, semver.MustParse("1.36.0"))
	Expect(err).NotTo(HaveOccurred())
	Expect(component.OpWait(etcds).Deploy(ctx)).To(Succeed())
	Expect(apply.Manifests(ctx, seed, seedsetup.OlderEtcdsPolicy)).To(Succeed())

	policies, err := seedsetup.PlaceholderPolicies()
	Expect(err).NotTo(HaveOccurred())
	Expect(apply.Manifests(ctx, seed, policies)).To(Succeed())
})
