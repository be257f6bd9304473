// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package cluster runs the control plane of a Kubernetes cluster (etcd, kube-apiserver, kube-controller-manager and,
// where there is a node, kube-scheduler) as processes. The garden and the seeds share it.
package cluster

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/yaml"

	"github.com/livecpm/livecpm/test/landscape/build"
	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/landscape/pki"
	"github.com/livecpm/livecpm/test/landscape/process"
	"github.com/livecpm/livecpm/test/permissions"
)

// Values describe a control plane.
type Values struct {
	// Name is the folder below the state folder and the prefix of the daemons' names.
	Name string
	// IP is the address of the kube-apiserver.
	IP string
	// ServiceCIDR is the range of cluster IPs, ServiceIP the first of it.
	ServiceCIDR, ServiceIP string
	// PodCIDR is the range of pods; empty without a node.
	PodCIDR string
	// Aggregation lets extension API servers be registered.
	Aggregation bool
	// Endpoints lets the kube-apiserver send what is for a Service to one of its pods, whose addresses it reaches,
	// because no service proxy runs where it does.
	Endpoints bool
	// Scheduler says whether there are nodes to schedule to.
	Scheduler bool
	// Controllers limits the controllers of kube-controller-manager; empty means all.
	Controllers []string
	// AuthorizationConfig is the file with the authorizers of the kube-apiserver, AuthorizationFiles what it refers to;
	// empty for the usual ones.
	AuthorizationConfig string
	AuthorizationFiles  []string
	// Namespaces are those the daemons run in.
	Namespaces process.Namespaces
	// Cgroups are those the daemons are put into.
	Cgroups []string
}

// ControlPlane is a control plane of the landscape.
type ControlPlane struct {
	cfg       *config.Config
	processes *process.Manager
	values    Values
	// CA issued all certificates of the cluster.
	CA *pki.CA
}

// New prepares a control plane: certificates, keys and kubeconfigs.
func New(cfg *config.Config, processes *process.Manager, values Values) (*ControlPlane, error) {
	p := &ControlPlane{cfg: cfg, processes: processes, values: values}
	var err error
	dir := cfg.PKI(values.Name)
	if p.CA, err = pki.EnsureCA(dir, "ca"); err != nil {
		return nil, err
	}
	if _, err := p.CA.Ensure("kube-apiserver", pki.Request{
		CommonName: "kube-apiserver",
		DNSNames: []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
			"kubernetes.default.svc.cluster.local"},
		IPs: []string{"127.0.0.1", values.IP, values.ServiceIP},
	}); err != nil {
		return nil, err
	}
	if _, err := p.CA.Ensure("kube-apiserver-kubelet-client", pki.Request{CommonName: "kube-apiserver-kubelet-client",
		Organizations: []string{"system:masters"}}); err != nil {
		return nil, err
	}
	if values.Aggregation {
		front, err := pki.EnsureCA(dir, "front-proxy-ca")
		if err != nil {
			return nil, err
		}
		if _, err := front.Ensure("front-proxy-client", pki.Request{CommonName: "front-proxy-client"}); err != nil {
			return nil, err
		}
	}
	if _, _, err := pki.EnsureSigningKey(dir, "service-account"); err != nil {
		return nil, err
	}
	if err := p.Kubeconfig(cfg.Kubeconfig(values.Name), "admin",
		pki.Request{CommonName: "admin", Organizations: []string{"system:masters"}}); err != nil {
		return nil, err
	}
	for _, component := range []string{"kube-controller-manager", "kube-scheduler"} {
		if err := p.Kubeconfig(p.file(component+".kubeconfig"), component,
			pki.Request{CommonName: "system:" + component}); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// Kubeconfig makes a client certificate and writes a kubeconfig for it.
func (p *ControlPlane) Kubeconfig(file, name string, request pki.Request) error {
	client, err := p.CA.Ensure(name, request)
	if err != nil {
		return err
	}
	return pki.EnsureKubeconfig(file, p.Server(), p.CA, client)
}

// Server is the URL of the kube-apiserver.
func (p *ControlPlane) Server() string { return "https://" + p.values.IP + ":6443" }

func (p *ControlPlane) file(name string) string {
	return filepath.Join(p.cfg.PKI(p.values.Name), name)
}

// Daemon completes a specification with the name, namespaces and cgroups of this cluster.
func (p *ControlPlane) Daemon(name string, command []string, files ...string) process.Spec {
	return process.Spec{
		Name:       p.values.Name + "-" + name,
		Command:    command,
		Namespaces: p.values.Namespaces,
		Cgroups:    p.values.Cgroups,
		Files:      files,
	}
}

// Up starts the control plane and waits until the kube-apiserver is ready.
func (p *ControlPlane) Up(ctx context.Context) error {
	etcd, err := build.Tool(ctx, p.cfg, "etcd")
	if err != nil {
		return err
	}
	kubernetes, err := build.Tool(ctx, p.cfg, "kubernetes")
	if err != nil {
		return err
	}
	if err := p.startEtcd(ctx, etcd); err != nil {
		return err
	}
	if err := p.startAPIServer(ctx, kubernetes); err != nil {
		return err
	}
	if _, err := p.processes.Ensure(ctx,
		p.Daemon("kube-controller-manager", append([]string{filepath.Join(kubernetes, "kube-controller-manager")},
			p.ControllerManagerFlags()...))); err != nil {
		return err
	}
	if !p.values.Scheduler {
		return nil
	}
	_, err = p.processes.Ensure(ctx,
		p.Daemon("kube-scheduler",
			append([]string{filepath.Join(kubernetes, "kube-scheduler")}, p.componentFlags("kube-scheduler")...)))
	return err
}

const etcdDaemon = "etcd"

// startEtcd starts etcd, whose program is in the folder.
func (p *ControlPlane) startEtcd(ctx context.Context, folder string) error {
	// etcd refuses a data folder that others can read.
	data := p.cfg.Dir(p.values.Name, "etcd")
	if err := os.MkdirAll(data, 0o700); err != nil {
		return fmt.Errorf("failed to make folder of etcd: %w", err)
	}
	// Nothing here has to survive a crash of the machine, so nothing is synced to the disk. That spares the shoot's own
	// etcd, which does sync, most of the waiting.
	_, err := p.processes.Ensure(ctx, p.Daemon(etcdDaemon, []string{
		filepath.Join(folder, "etcd"),
		"--name=" + p.values.Name,
		"--data-dir=" + data,
		"--listen-client-urls=http://127.0.0.1:2379",
		"--advertise-client-urls=http://127.0.0.1:2379",
		"--listen-peer-urls=http://127.0.0.1:2380",
		"--initial-advertise-peer-urls=http://127.0.0.1:2380",
		"--initial-cluster=" + p.values.Name + "=http://127.0.0.1:2380",
		"--auto-compaction-mode=periodic",
		"--auto-compaction-retention=10m",
		"--unsafe-no-fsync",
		"--log-level=warn",
	}))
	return err
}

// startAPIServer starts the kube-apiserver, whose program is in the folder, and waits until it is ready.
func (p *ControlPlane) startAPIServer(ctx context.Context, folder string) error {
	files := []string{p.CA.File(), p.file("kube-apiserver.crt")}
	if p.values.AuthorizationConfig != "" {
		files = append(append(files, p.values.AuthorizationConfig), p.values.AuthorizationFiles...)
	}
	if p.cfg.Audit {
		if err := p.writeAuditPolicy(); err != nil {
			return err
		}
		files = append(files, p.auditPolicy())
	}
	apiserver := p.Daemon("kube-apiserver",
		append([]string{filepath.Join(folder, "kube-apiserver")}, p.APIServerFlags()...), files...)
	if _, err := p.processes.Ensure(ctx, apiserver); err != nil {
		return err
	}
	ready, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	probe, err := p.readyz()
	if err != nil {
		return err
	}
	if err := p.processes.Wait(ready, apiserver.Name, probe); err != nil {
		if etcd := p.Daemon(etcdDaemon, nil).Name; p.processes.PID(etcd) == 0 {
			return fmt.Errorf("%s died, see %s: %w", etcd, p.processes.LogFile(etcd), err)
		}
		return err
	}
	return nil
}

// APIServerFlags are the flags of the kube-apiserver.
func (p *ControlPlane) APIServerFlags() []string {
	flags := []string{
		"--etcd-servers=http://127.0.0.1:2379",
		"--advertise-address=" + p.values.IP,
		"--secure-port=6443",
		"--service-cluster-ip-range=" + p.values.ServiceCIDR,
		"--cert-dir=" + p.cfg.Dir(p.values.Name, "kube-apiserver"),
		"--client-ca-file=" + p.CA.File(),
		"--tls-cert-file=" + p.file("kube-apiserver.crt"),
		"--tls-private-key-file=" + p.file("kube-apiserver.key"),
		"--kubelet-client-certificate=" + p.file("kube-apiserver-kubelet-client.crt"),
		"--kubelet-client-key=" + p.file("kube-apiserver-kubelet-client.key"),
		"--kubelet-certificate-authority=" + p.CA.File(),
		"--kubelet-preferred-address-types=InternalIP",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-signing-key-file=" + p.file("service-account.key"),
		"--service-account-key-file=" + p.file("service-account.pub"),
		"--enable-admission-plugins=NodeRestriction",
		"--allow-privileged=true",
		"--profiling=false",
	}
	if p.values.AuthorizationConfig != "" {
		flags = append(flags, "--authorization-config="+p.values.AuthorizationConfig)
	} else {
		flags = append(flags, "--authorization-mode=Node,RBAC")
	}
	if p.cfg.Audit {
		flags = append(flags,
			"--audit-policy-file="+p.auditPolicy(),
			"--audit-log-path="+AuditLog(p.cfg, p.values.Name),
			"--audit-log-mode=batch",
			"--audit-log-maxsize=500",
			"--audit-log-maxbackup=1",
		)
	}
	if p.values.Aggregation {
		flags = append(flags,
			"--requestheader-client-ca-file="+p.file("front-proxy-ca.crt"),
			"--requestheader-allowed-names=front-proxy-client",
			"--requestheader-extra-headers-prefix=X-Remote-Extra-",
			"--requestheader-group-headers=X-Remote-Group",
			"--requestheader-username-headers=X-Remote-User",
			"--proxy-client-cert-file="+p.file("front-proxy-client.crt"),
			"--proxy-client-key-file="+p.file("front-proxy-client.key"),
		)
	}
	if p.values.Aggregation || p.values.Endpoints {
		// It also routes webhooks.
		flags = append(flags, "--enable-aggregator-routing=true")
	}
	return flags
}

// AuditLog is where the kube-apiserver of a cluster writes down who asks for what, if it is told to.
func AuditLog(cfg *config.Config, name string) string { return cfg.Dir("logs", name+"-audit.jsonl") }

func (p *ControlPlane) auditPolicy() string { return p.file("audit-policy.yaml") }

// writeAuditPolicy lets the kube-apiserver write down what agents and controller manager ask for. Everybody else would
// fill the disk.
func (p *ControlPlane) writeAuditPolicy() error {
	policy := permissions.AuditPolicy()
	level := policy.Rules[0].Level
	// The agent in its seed and the controller manager, and the agents in the garden, where gardenlets have installed
	// them.
	policy.Rules = []auditv1.PolicyRule{
		{Level: level, Users: []string{"system:serviceaccount:garden:livecpm-agent", "livecpm-controller-manager"}},
		{Level: level},
		{Level: auditv1.LevelNone},
	}
	for _, seed := range p.cfg.Seeds {
		policy.Rules[1].UserGroups = append(policy.Rules[1].UserGroups, "system:serviceaccounts:seed-"+seed.Name)
	}
	content, err := yaml.Marshal(policy)
	if err != nil {
		return fmt.Errorf("failed to encode audit policy: %w", err)
	}
	if before, err := os.ReadFile(p.auditPolicy()); err == nil && bytes.Equal(before, content) {
		return nil
	}
	if err := os.WriteFile(p.auditPolicy(), content, 0o600); err != nil {
		return fmt.Errorf("failed to write audit policy: %w", err)
	}
	return nil
}

// ControllerManagerFlags are the flags of the kube-controller-manager.
func (p *ControlPlane) ControllerManagerFlags() []string {
	flags := append(p.componentFlags("kube-controller-manager"),
		"--service-account-private-key-file="+p.file("service-account.key"),
		"--root-ca-file="+p.CA.File(),
		"--cluster-signing-cert-file="+p.CA.File(),
		"--cluster-signing-key-file="+p.file("ca.key"),
		"--use-service-account-credentials=true",
		"--service-cluster-ip-range="+p.values.ServiceCIDR,
	)
	if p.values.PodCIDR != "" {
		flags = append(flags, "--cluster-cidr="+p.values.PodCIDR)
	}
	if len(p.values.Controllers) > 0 {
		flags = append(flags, "--controllers="+strings.Join(p.values.Controllers, ","))
	}
	return flags
}

// componentFlags are what controller manager and scheduler have in common. Each is alone, so none elects a leader.
func (p *ControlPlane) componentFlags(component string) []string {
	kubeconfig := p.file(component + ".kubeconfig")
	return []string{
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--leader-elect=false",
		"--profiling=false",
		"--cert-dir=" + p.cfg.Dir(p.values.Name, component),
	}
}

// readyz returns a probe of the kube-apiserver.
func (p *ControlPlane) readyz() (func(context.Context) error, error) {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(p.CA.CertPEM)
	certificate, err := tls.LoadX509KeyPair(p.file("admin.crt"), p.file("admin.key"))
	if err != nil {
		return nil, fmt.Errorf("failed to load administrator's certificate: %w", err)
	}
	client := &http.Client{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool,
			Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}},
	}
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.Server()+"/readyz", nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		if err := response.Body.Close(); err != nil {
			return err
		}
		if response.StatusCode != http.StatusOK {
			return errors.New("readyz answers " + response.Status)
		}
		return nil
	}, nil
}
