// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/livecpm/livecpm/test/integration/framework"
	"github.com/livecpm/livecpm/test/patience"
)

func TestCLI(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(patience.Eventually)
	RunSpecs(t, "Integration CLI Suite")
}

var (
	ctx        = context.Background()
	garden     *framework.Garden
	kubeconfig string
)

var _ = BeforeSuite(func() {
	garden = framework.Start(ctx)
	Expect(garden.InstallPolicies(ctx)).To(Succeed())

	folder, err := os.MkdirTemp("", "livecpm-cli-")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(os.RemoveAll(folder)).To(Succeed()) })
	kubeconfig = filepath.Join(folder, "kubeconfig")
	config := clientcmdapi.NewConfig()
	config.Clusters["garden"] = &clientcmdapi.Cluster{Server: garden.Config.Host,
		CertificateAuthorityData: garden.Config.CAData}
	config.AuthInfos["admin"] = &clientcmdapi.AuthInfo{ClientCertificateData: garden.Config.CertData,
		ClientKeyData: garden.Config.KeyData, Token: garden.Config.BearerToken}
	config.Contexts["garden"] = &clientcmdapi.Context{Cluster: "garden", AuthInfo: "admin",
		Namespace: framework.ProjectNamespace}
	config.CurrentContext = "garden"
	Expect(clientcmd.WriteToFile(*config, kubeconfig)).To(Succeed())
})
