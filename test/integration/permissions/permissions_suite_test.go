// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package permissions_test tries the permissions of agents and controller manager in a garden that Gardener's own
// SeedAuthorizer and SeedRestriction stand in front of: what they may, what they may not, and that they may nothing
// that they do not use.
package permissions_test

import (
	"context"
	"testing"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	"github.com/gardener/gardener/pkg/controllermanager/controller/controllerregistration/extensionclusterrole"
	gardenletfeatures "github.com/gardener/gardener/pkg/gardenlet/features"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/livecpm/livecpm/test/integration/framework"
	"github.com/livecpm/livecpm/test/patience"
)

func TestPermissions(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Integration Permissions Suite")
}

const (
	seedA = "seed-a"
	seedB = "seed-b"
	// seedC takes no part in any migration.
	seedC = "seed-c"

	// defaultDomain is that of all seeds.
	defaultDomain = "shoots.livecpm.example"

	// installation is the ControllerInstallation of the agents, by which their service accounts are called.
	installation = "livecpm-x7k2p"
	// manager is who the controller manager is, ownIdentity whoever an agent is that has no identity of its seed. They
	// have the permissions of the chart and no others.
	manager     = "livecpm-controller-manager"
	ownIdentity = "livecpm-agents"
)

func init() { gardenletfeatures.RegisterFeatureGates() }

var (
	ctx    = context.Background()
	garden *framework.Garden

	seeds = map[string]*gardencorev1beta1.Seed{}
	// chartValues are those of a garden with everything that asks for permissions.
	chartValues = map[string]any{
		"registration": map[string]any{"name": "livecpm"},
		"runtime":      map[string]any{"enabled": false},
		"rbac": map[string]any{
			"enabled": true, "ownIdentity": true,
			"subjects": []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User",
				"name": ownIdentity}},
			"extension": map[string]any{"enabled": true, "seedsInSeveralRegions": []any{seedA, seedB}},
		},
		"controllerManager": map[string]any{
			"enabled":  true,
			"subjects": []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": manager}},
		},
	}
)

var _ = BeforeSuite(func() {
	SetDefaultEventuallyTimeout(patience.Eventually)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	garden = framework.StartGuarded(ctx)
	Expect(garden.InstallChart(ctx, chartValues)).To(Succeed())

	for _, name := range []string{seedA, seedB, seedC} {
		seed := framework.NewSeed(name)
		// The seeds are in regions of their own, so agents have to look up how far these are apart.
		seed.Spec.DNS.Defaults = []gardencorev1beta1.SeedDNSProviderConfig{{
			Type: framework.ProviderType, Domain: defaultDomain, CredentialsRef: *seed.Spec.DNS.Provider.CredentialsRef,
		}}
		seed.Spec.Provider.Region, seed.Spec.Backup.Region = "region-"+name, new("region-"+name)
		Expect(garden.CreateSeed(ctx, seed)).To(Succeed())
		seeds[name] = seed
		withBucket(seed)
		seedNamespace := gardenerutils.ComputeGardenNamespace(name)
		for _, object := range []client.Object{
			// What gardener-controller-manager and the gardenlet make for a seed.
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: seedNamespace}},
			&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
				Name: v1beta1constants.ExtensionGardenServiceAccountPrefix + installation, Namespace: seedNamespace,
				Labels: map[string]string{"controllerregistration.core.gardener.cloud/name": "livecpm"},
			}},
			&corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{
					Name: "shoot-service-account-issuer", Namespace: seedNamespace,
					Labels: map[string]string{
						v1beta1constants.GardenRole: v1beta1constants.GardenRoleShootServiceAccountIssuer,
					},
				},
				Data: map[string][]byte{"hostname": []byte("issuer.livecpm.example")},
			},
		} {
			Expect(garden.Client.Create(ctx, object)).To(Succeed())
		}
	}
	for _, object := range []client.Object{
		// With it shoots may let Gardener publish the keys of their issuers.
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Name: "shoot-service-account-issuer", Namespace: v1beta1constants.GardenNamespace,
				Labels: map[string]string{
					v1beta1constants.GardenRole: v1beta1constants.GardenRoleShootServiceAccountIssuer,
				},
			},
			Data: map[string][]byte{"hostname": []byte("issuer.livecpm.example")},
		},
		&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Name: "regions", Namespace: v1beta1constants.GardenNamespace,
				Labels: map[string]string{
					v1beta1constants.SchedulingPurpose: v1beta1constants.SchedulingPurposeRegionConfig,
				},
				Annotations: map[string]string{
					v1beta1constants.AnnotationSchedulingCloudProfiles: framework.CloudProfile,
				},
			},
			Data: map[string]string{
				"region-seed-a": "region-seed-b: 50\nregion-seed-c: 50\n",
				"region-seed-b": "region-seed-a: 50\nregion-seed-c: 50\n",
				"region-seed-c": "region-seed-a: 50\nregion-seed-b: 50\n",
			},
		},
	} {
		Expect(garden.Client.Create(ctx, object)).To(Succeed())
	}
	_, err := (&extensionclusterrole.Reconciler{Client: garden.Client}).Reconcile(ctx,
		reconcile.Request{NamespacedName: client.ObjectKey{Name: "livecpm:extension"}})
	Expect(err).NotTo(HaveOccurred())
})

// extension is who the agent of the seed is where a gardenlet installs it: it has a token of its service account.
func extension(seedName string) *rest.Config {
	GinkgoHelper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Name:      v1beta1constants.ExtensionGardenServiceAccountPrefix + installation,
		Namespace: gardenerutils.ComputeGardenNamespace(seedName),
	}}
	token := &authenticationv1.TokenRequest{}
	Expect(garden.Client.SubResource("token").Create(ctx, account, token)).To(Succeed())
	config := rest.AnonymousClientConfig(garden.Config)
	config.BearerToken = token.Status.Token
	config.QPS, config.Burst = 1000, 2000
	return config
}

// extensionName is what the audit log calls it.
func extensionName(seedName string) string {
	return "system:serviceaccount:" + gardenerutils.ComputeGardenNamespace(seedName) + ":" +
		v1beta1constants.ExtensionGardenServiceAccountPrefix + installation
}

// gardenlet is who the agent of the seed is where it shares the gardenlet's identity.
func gardenlet(seedName string) *rest.Config {
	return as(v1beta1constants.SeedUserNamePrefix+seedName, v1beta1constants.SeedsGroup)
}

func as(user string, groups ...string) *rest.Config {
	config := rest.CopyConfig(garden.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	config.QPS, config.Burst = 1000, 2000
	return config
}

func clientOf(config *rest.Config) client.Client {
	GinkgoHelper()
	c, err := client.New(config, client.Options{Scheme: kubernetes.GardenScheme})
	Expect(err).NotTo(HaveOccurred())
	return c
}

// identities are the two ways in which an agent belongs to its seed. To Gardener they are alike.
var identities = map[string]func(string) *rest.Config{"extension": extension, "gardenlet": gardenlet}
