// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package gardenaccess_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	"github.com/gardener/gardener/pkg/controller/tokenrequestor"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/livecpm/livecpm/cmd/livecpm-controller-manager/app"
	configv1alpha1 "github.com/livecpm/livecpm/pkg/apis/config/v1alpha1"
	livecpm "github.com/livecpm/livecpm/pkg/garden"
	"github.com/livecpm/livecpm/test/patience"
)

const (
	mounted = "/etc/livecpm-controller-manager/garden"
	access  = "shoot-access-livecpm-controller-manager"
)

// Gardener's own token requestor fills the Secret of the chart; the test takes the place of the kubelet alone.
var _ = Describe("The controller manager's access to the garden", Ordered, func() {
	var (
		folder    string
		config    *configv1alpha1.ControllerManagerConfiguration
		content   string
		requestor *tokenrequestor.Reconciler
		reader    client.Reader
	)
	key := client.ObjectKey{Namespace: "garden", Name: access}
	request := func() {
		GinkgoHelper()
		_, err := requestor.Reconcile(ctx, reconcile.Request{NamespacedName: key})
		Expect(err).NotTo(HaveOccurred())
	}
	secret := func() *corev1.Secret {
		GinkgoHelper()
		secret := &corev1.Secret{}
		Expect(garden.Client.Get(ctx, key, secret)).To(Succeed())
		return secret
	}
	// project writes what the pod sees in its volume.
	project := func() {
		GinkgoHelper()
		configMap := &corev1.ConfigMap{}
		Expect(garden.Client.Get(ctx, client.ObjectKey{Namespace: "garden", Name: "livecpm-controller-manager"},
			configMap)).To(Succeed())
		content = configMap.Data["config.yaml"]
		data := secret().Data
		for name, value := range map[string][]byte{
			"kubeconfig": []byte(configMap.Data["kubeconfig"]),
			"token":      data[resourcesv1alpha1.DataKeyToken],
			"bundle.crt": data[resourcesv1alpha1.DataKeyCABundle],
		} {
			Expect(value).NotTo(BeEmpty(), name)
			Expect(os.WriteFile(filepath.Join(folder, name), value, 0o600)).To(Succeed())
		}
	}
	list := func() error { return reader.List(ctx, &gardencorev1beta1.ShootList{}) }

	BeforeAll(func() {
		SetDefaultEventuallyTimeout(patience.Eventually)
		SetDefaultEventuallyPollingInterval(200 * time.Millisecond)
		folder = GinkgoT().TempDir()
		class := resourcesv1alpha1.ResourceManagerClassShoot
		requestor = &tokenrequestor.Reconciler{SourceClient: garden.Client, TargetClient: garden.Client,
			Clock: clock.RealClock{}, JitterFunc: func(d time.Duration, _ float64) time.Duration { return d },
			Class: &class, CAData: garden.Config.CAData}
	})

	It("should come from a Secret that Gardener's token requestor fills", func() {
		Expect(secret().Data).To(BeEmpty())
		request()
		project()
		Expect(secret().Data[resourcesv1alpha1.DataKeyCABundle]).To(Equal(garden.Config.CAData))

		var err error
		content = strings.ReplaceAll(content, mounted, folder)
		config, err = configv1alpha1.DecodeControllerManager([]byte(content))
		Expect(err).NotTo(HaveOccurred())
		Expect(filepath.Dir(config.GardenClientConnection.Kubeconfig)).To(Equal(folder))
		reader, err = livecpm.NewGardenReader(config)
		Expect(err).NotTo(HaveOccurred())
		Expect(list()).To(Succeed())
	})

	It("should serve the program itself, as the very account that has the permissions", func() {
		file := filepath.Join(folder, "config.yaml")
		Expect(os.WriteFile(file, []byte(content), 0o600)).To(Succeed())
		var out bytes.Buffer
		command := app.NewCommand()
		command.SetArgs([]string{"removable", "--config=" + file})
		command.SetOut(&out)
		Expect(command.ExecuteContext(ctx)).To(Succeed())
		Expect(out.String()).To(Equal("No live migration is in flight.\n"))
		// Not more than the chart gives to it.
		err := reader.List(ctx, &corev1.SecretList{})
		Expect(err).To(MatchError(apierrors.IsForbidden, "IsForbidden"))
		Expect(err).To(MatchError(ContainSubstring("system:serviceaccount:kube-system:livecpm-controller-manager")))
	})

	It("should continue with the next token, without a restart", func() {
		before := secret().Data[resourcesv1alpha1.DataKeyToken]
		// Its tokens end with the account.
		Expect(garden.Client.Delete(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceSystem, Name: "livecpm-controller-manager"}})).To(Succeed())
		Eventually(list).Should(MatchError(apierrors.IsUnauthorized, "IsUnauthorized"))

		request()
		Expect(secret().Data[resourcesv1alpha1.DataKeyToken]).NotTo(Equal(before))
		project()
		Eventually(list).Should(Succeed())
	})
})
