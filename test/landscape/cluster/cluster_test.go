// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"os"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/landscape/cluster"
	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/landscape/process"
)

var _ = Describe("ControlPlane", func() {
	var (
		cfg    *config.Config
		values cluster.Values
	)

	BeforeEach(func() {
		var err error
		cfg, err = config.New(config.Place{Prefix: "livecpm", Network: "10.250.0", Repo: "/repo",
			State: GinkgoT().TempDir(), Cache: "/cache"})
		Expect(err).NotTo(HaveOccurred())
		values = cluster.Values{Name: "seed-a", IP: "10.250.0.11", ServiceCIDR: "10.97.0.0/16", ServiceIP: "10.97.0.1",
			PodCIDR: "10.241.0.0/16", Scheduler: true}
	})

	create := func() *cluster.ControlPlane {
		controlPlane, err := cluster.New(cfg, process.NewManager(cfg.State), values)
		ExpectWithOffset(1, err).NotTo(HaveOccurred())
		return controlPlane
	}

	It("should prepare certificates and kubeconfigs", func() {
		create()
		for _, file := range []string{cfg.Kubeconfig("seed-a"), cfg.Dir("seed-a", "pki", "ca.crt"),
			cfg.Dir("seed-a", "pki", "kube-scheduler.kubeconfig")} {
			Expect(file).To(BeARegularFile())
		}
		before, err := os.ReadFile(cfg.Kubeconfig("seed-a"))
		Expect(err).NotTo(HaveOccurred())
		create()
		Expect(os.ReadFile(cfg.Kubeconfig("seed-a"))).To(Equal(before))
	})

	It("should let a seed run privileged pods and leave aggregation out", func() {
		flags := create().APIServerFlags()
		Expect(flags).To(ContainElements("--allow-privileged=true", "--service-cluster-ip-range=10.97.0.0/16",
			"--advertise-address=10.250.0.11"))
		Expect(flags).NotTo(ContainElement(HavePrefix("--requestheader")))
		Expect(create().ControllerManagerFlags()).To(ContainElement("--cluster-cidr=10.241.0.0/16"))
	})

	It("should let a garden register extension API servers and run chosen controllers only", func() {
		values.Aggregation, values.PodCIDR, values.Controllers = true, "",
			[]string{"namespace-controller", "garbage-collector-controller"}
		Expect(create().APIServerFlags()).To(ContainElements("--enable-aggregator-routing=true",
			HavePrefix("--requestheader-client-ca-file="), HavePrefix("--proxy-client-cert-file=")))
		Expect(cfg.Dir("seed-a", "pki", "front-proxy-client.crt")).To(BeARegularFile())
		flags := create().ControllerManagerFlags()
		Expect(flags).To(ContainElement("--controllers=namespace-controller,garbage-collector-controller"))
		Expect(flags).NotTo(ContainElement(HavePrefix("--cluster-cidr")))
	})

	It("should authorize as it is told to", func() {
		Expect(create().APIServerFlags()).To(And(ContainElement("--authorization-mode=Node,RBAC"),
			Not(ContainElement(HavePrefix("--authorization-config")))))
		values.AuthorizationConfig = "/some/file"
		Expect(create().APIServerFlags()).To(And(ContainElement("--authorization-config=/some/file"),
			Not(ContainElement(HavePrefix("--authorization-mode")))))
	})

	It("should write down who asks for what if it is told to", func() {
		Expect(create().APIServerFlags()).NotTo(ContainElement(HavePrefix("--audit")))
		cfg.Audit = true
		Expect(create().APIServerFlags()).
			To(ContainElements(HavePrefix("--audit-policy-file="), "--audit-log-path="+cluster.AuditLog(cfg, "seed-a")))
	})
})
