// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"time"

	authenticationv1alpha1 "github.com/gardener/gardener/pkg/apis/authentication/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	seedmanagementv1alpha1 "github.com/gardener/gardener/pkg/apis/seedmanagement/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/livecpm/livecpm/pkg/cli/access"
)

var _ = Describe("Ways into seeds", func() {
	Describe("the configuration file", func() {
		read := func(content string) (access.Config, error) {
			path := filepath.Join(GinkgoT().TempDir(), "config.yaml")
			Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
			return access.ReadConfig(func(name string) string {
				Expect(name).To(Equal("LIVECPM_CONFIG"))
				return path
			})
		}

		It("should be read", func() {
			Expect(read("seedAccess: admin\nseedKubeconfigs: {seed-a: /a}\n")).To(Equal(access.Config{
				SeedAccess: access.CredentialsAdmin, SeedKubeconfigs: map[string]string{"seed-a": "/a"}}))
		})

		It("should be refused if it says what nobody understands", func() {
			_, err := read("seedAccess: root\n")
			Expect(err).To(MatchError(ContainSubstring(`has seedAccess "root"; it can be none, viewer, admin`)))
			_, err = read("seeds: {}\n")
			Expect(err).To(MatchError(ContainSubstring("seeds")))
		})

		It("should exist if it is named, and need not otherwise", func() {
			_, err := access.ReadConfig(func(string) string { return "/does/not/exist" })
			Expect(err).To(MatchError(ContainSubstring("failed to read the configuration file")))
			GinkgoT().Setenv("XDG_CONFIG_HOME", GinkgoT().TempDir())
			Expect(access.ReadConfig(func(string) string { return "" })).To(Equal(access.Config{}))
		})

		It("should be found in the user's folder", func() {
			folder := GinkgoT().TempDir()
			GinkgoT().Setenv("XDG_CONFIG_HOME", folder)
			Expect(os.Mkdir(filepath.Join(folder, "kubectl-livecpm"), 0o700)).To(Succeed())
			Expect(os.WriteFile(filepath.Join(folder, "kubectl-livecpm", "config.yaml"), []byte("seedAccess: none\n"),
				0o600)).To(Succeed())
			Expect(access.ReadConfig(func(string) string { return "" })).
				To(HaveField("SeedAccess", access.CredentialsNone))
		})
	})

	It("should prefer flags to the environment, and the environment to the configuration", func() {
		GinkgoT().Setenv("HOME", "/home/me")
		Expect(access.SeedFlags([]string{"seed-a=/flag"}, "seed-a=/environment, seed-b=/environment,",
			access.Config{SeedKubeconfigs: map[string]string{"seed-a": "/file", "seed-b": "/file",
				"seed-c": "~/file"}})).
			To(Equal([]string{"seed-a=/flag", "seed-b=/environment", "seed-c=/home/me/file"}))
		_, err := access.SeedFlags(nil, "seed-a", access.Config{})
		Expect(err).To(MatchError(ContainSubstring(`LIVECPM_SEED_KUBECONFIGS has "seed-a"`)))
	})

	It("should open the runtime cluster that flag, environment or configuration name, in this order", func() {
		folder := GinkgoT().TempDir()
		GinkgoT().Setenv("HOME", folder)
		for _, name := range []string{"flag", "environment", "file"} {
			Expect(os.WriteFile(filepath.Join(folder, name), []byte(`{apiVersion: v1, kind: Config, current-context: c,
				clusters: [{name: c, cluster: {server: "https://`+name+`.example"}}], users: [{name: c, user: {token: t}}],
				contexts: [{name: c, context: {cluster: c, user: c}}]}`), 0o600)).To(Succeed())
		}
		host := func(flag, environment string, config access.Config) string {
			runtime, err := access.OpenRuntime(flag, environment, config)
			Expect(err).NotTo(HaveOccurred())
			return runtime.Config.Host
		}
		file := access.Config{RuntimeKubeconfig: "~/file"}
		Expect(host(folder+"/flag", folder+"/environment", file)).To(Equal("https://flag.example"))
		Expect(host("", folder+"/environment", file)).To(Equal("https://environment.example"))
		Expect(host("", "", file)).To(Equal("https://file.example"))
		Expect(access.OpenRuntime("", "", access.Config{})).To(BeNil())
		_, err := access.OpenRuntime(folder+"/absent", "", file)
		Expect(err).To(MatchError(ContainSubstring("failed to read the kubeconfig of the garden's runtime cluster")))
	})

	It("should read a kubeconfig once, since a pipe from another program cannot be read twice", func() {
		pipe := filepath.Join(GinkgoT().TempDir(), "pipe")
		Expect(syscall.Mkfifo(pipe, 0o600)).To(Succeed())
		written := make(chan error, 1)
		go func() {
			written <- os.WriteFile(pipe, []byte(`{apiVersion: v1, kind: Config, current-context: c,
				clusters: [{name: c, cluster: {server: "https://piped.example"}}], users: [{name: c, user: {token: t}}],
				contexts: [{name: c, context: {cluster: c, user: c}}]}`), 0o600)
		}()
		seeds, err := access.OpenSeeds([]string{"seed-a=" + pipe})
		Expect(err).NotTo(HaveOccurred())
		Expect(<-written).To(Succeed())
		Expect(seeds["seed-a"].Config.Host).To(Equal("https://piped.example"))
	})

	Describe("ManagedSeed", func() {
		const kubeconfig = `apiVersion: v1
kind: Config
current-context: c
clusters: [{name: c, cluster: {server: "https://api.seed-a.example"}}]
users: [{name: c, user: {token: a-token}}]
contexts: [{name: c, context: {cluster: c, user: c}}]
`
		var (
			ctx       = context.Background()
			requested []string
			refuse    error
			garden    client.Client
		)

		BeforeEach(func() {
			requested, refuse = nil, nil
			garden = fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).WithObjects(
				&seedmanagementv1alpha1.ManagedSeed{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "seed-a"},
					Spec: seedmanagementv1alpha1.ManagedSeedSpec{
						Shoot: &seedmanagementv1alpha1.Shoot{Name: "shoot-a"}}},
				&gardencorev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "shoot-a"},
					Status: gardencorev1beta1.ShootStatus{
						AdvertisedAddresses: []gardencorev1beta1.ShootAdvertisedAddress{
							{Name: "external", URL: "https://api.seed-a.example"}}}},
			).WithInterceptorFuncs(interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object,
					options ...client.GetOption) error {
					if refuse != nil {
						return refuse
					}
					return c.Get(ctx, key, object, options...)
				},
				SubResourceCreate: func(_ context.Context, _ client.Client, resource string, object client.Object,
					sub client.Object, _ ...client.SubResourceCreateOption) error {
					var seconds int64
					switch request := sub.(type) {
					case *authenticationv1alpha1.AdminKubeconfigRequest:
						request.Status.Kubeconfig, seconds = []byte(kubeconfig), *request.Spec.ExpirationSeconds
					case *authenticationv1alpha1.ViewerKubeconfigRequest:
						request.Status.Kubeconfig, seconds = []byte(kubeconfig), *request.Spec.ExpirationSeconds
					}
					requested = append(requested, object.GetName()+"/"+resource+" for "+
						(time.Duration(seconds)*time.Second).String())
					return nil
				},
			}).Build()
		})

		DescribeTable("should get in with what the garden issues",
			func(kind access.Credentials, expected string) {
				seed, err := access.ManagedSeed(ctx, garden, "seed-a", kind)
				Expect(err).NotTo(HaveOccurred())
				Expect(seed.Config.Host).To(Equal("https://api.seed-a.example"))
				Expect(seed.Config.BearerToken).To(Equal("a-token"))
				Expect(seed.Reader).NotTo(BeNil())
				Expect(seed.Logs).NotTo(BeNil())
				Expect(requested).To(ConsistOf(expected))
			},
			Entry("as a viewer", access.CredentialsViewer, "shoot-a/viewerkubeconfig for 4h0m0s"),
			Entry("as an administrator", access.CredentialsAdmin, "shoot-a/adminkubeconfig for 4h0m0s"),
		)

		It("should tell a seed that is no shoot, or that the user may not know, from a fault", func() {
			_, err := access.ManagedSeed(ctx, garden, "seed-b", access.CredentialsViewer)
			Expect(err).To(MatchError(access.ErrNotManaged))
			refuse = apierrors.NewForbidden(schema.GroupResource{Resource: "managedseeds"}, "seed-a", nil)
			_, err = access.ManagedSeed(ctx, garden, "seed-a", access.CredentialsViewer)
			Expect(err).To(MatchError(access.ErrNotManaged))
			refuse = errors.New("the garden is away")
			_, err = access.ManagedSeed(ctx, garden, "seed-a", access.CredentialsViewer)
			Expect(err).To(MatchError(ContainSubstring("failed to get ManagedSeed garden/seed-a: the garden is away")))
			Expect(requested).To(BeEmpty())
		})
	})
})
