// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package garden puts Gardener on top of the landscape's garden cluster: the real gardener-apiserver and
// gardener-controller-manager as processes beside the kube-apiserver, the aggregated API, and what an operator would
// configure: project, cloud profile, domains, provider-local. The Seeds are registered by their gardenlets.
package garden

import (
	"context"
	_ "embed"
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/miekg/dns"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener/pkg/client/kubernetes"

	"github.com/livecpm/livecpm/test/authorizers"
	"github.com/livecpm/livecpm/test/landscape/apply"
	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/landscape/machine"
	"github.com/livecpm/livecpm/test/landscape/network"
	"github.com/livecpm/livecpm/test/landscape/pki"
	"github.com/livecpm/livecpm/test/landscape/process"
)

const (
	apiServer         = "gardener-apiserver"
	controllerManager = "gardener-controller-manager"
	apiServerPort     = 8443
	// healthPort is where gardener-controller-manager answers; its configuration names it, too.
	healthPort = 2718
	// providerLocalZone is the zone that provider-local's DNSRecord controller has compiled in.
	providerLocalZone = "local.gardener.cloud"
	// Identity is the name the garden gives itself.
	Identity = "livecpm-landscape"
	// ProviderLocalImage is the reference under which the seeds find the image of provider-local, without its tag.
	ProviderLocalImage = "europe-docker.pkg.dev/gardener-project/releases/gardener/extensions/provider-local"
)

//go:embed manifests/garden.yaml
var gardenManifest string

//go:embed manifests/controller-manager.yaml
var controllerManagerConfig string

// Garden is the garden cluster with what runs in it.
type Garden struct {
	Config    *config.Config
	Processes *process.Manager
	// Tools is the folder with the real gardener-apiserver and gardener-controller-manager, AdmissionTools that with
	// gardener-admission-controller.
	Tools, AdmissionTools string
	// CA signs for clients and servers of the garden.
	CA *pki.CA
	// EtcdServers are the addresses of the garden's etcd, as seen in the garden's network namespace.
	EtcdServers string
	// Report tells the user what is awaited.
	Report func(format string, args ...any)
}

// Client returns a client for the garden with its administrator's rights.
func Client(cfg *config.Config) (client.Client, error) {
	restConfig, err := apply.RESTConfig(cfg.Kubeconfig(cfg.Garden.Name))
	if err != nil {
		return nil, err
	}
	c, err := client.New(restConfig, client.Options{Scheme: kubernetes.GardenScheme})
	if err != nil {
		return nil, fmt.Errorf("failed to create client for the garden: %w", err)
	}
	return c, nil
}

// BackupFolder is the folder on the machine that plays the object store of both seeds.
func BackupFolder(cfg *config.Config) string { return cfg.Dir("backups") }

// Up starts Gardener in the garden and waits until its API and its project are there. Repeating it changes nothing.
func (g *Garden) Up(ctx context.Context) error {
	module, err := Gardener(ctx, g.Config.Repo)
	if err != nil {
		return err
	}
	c, err := Client(g.Config)
	if err != nil {
		return err
	}

	g.Report("starting %s", apiServer)
	if err := g.startAPIServer(ctx); err != nil {
		return err
	}
	if err := g.registerAPI(ctx, c); err != nil {
		return err
	}

	if err := removeLeftovers(ctx, c, g.Config); err != nil {
		return err
	}
	if g.Config.Authorizers {
		g.Report("starting %s", authorizers.Name)
		if err := g.startAdmissionController(ctx, c); err != nil {
			return err
		}
	}

	values, err := g.manifestValues(ctx, module)
	if err != nil {
		return err
	}
	manifests, err := apply.Render("garden.yaml", gardenManifest, values)
	if err != nil {
		return err
	}
	if err := apply.Manifests(ctx, c, manifests); err != nil {
		return err
	}

	if g.Config.Gardenlet.SetsUpSeed() {
		if err := ensureMonitoringSecret(ctx, c); err != nil {
			return err
		}
	}

	g.Report("starting %s", controllerManager)
	if err := g.startControllerManager(ctx); err != nil {
		return err
	}
	return g.waitForProject(ctx, c, "demo")
}

func (g *Garden) manifestValues(ctx context.Context, module Module) (map[string]any, error) {
	kubernetesModule, err := Kubernetes(ctx, g.Config.Repo)
	if err != nil {
		return nil, err
	}
	chart, err := packChart(filepath.Join(module.Dir, "charts", "gardener", "provider-local"), "provider-local")
	if err != nil {
		return nil, err
	}
	testExtension, err := packChart(filepath.Join(g.Config.Repo, "test", "extension", "chart"), "extension-test")
	if err != nil {
		return nil, err
	}
	regions := make([]string, 0, len(g.Config.Seeds))
	for _, seed := range g.Config.Seeds {
		regions = append(regions, seed.Region)
	}
	return map[string]any{
		"GardenerVersion":      module.Version,
		"InternalDomain":       config.InternalDomain,
		"ShootDomain":          config.ShootDomain,
		"Regions":              regions,
		"ProviderLocalChart":   base64.StdEncoding.EncodeToString(chart),
		"ProviderLocalImage":   ProviderLocalImage + ":" + module.Version,
		"MachineImage":         MachineImage,
		"MachineDriverImage":   MachineDriverImage,
		"CloudControllerImage": CloudControllerImage,
		"TestExtensionChart":   base64.StdEncoding.EncodeToString(testExtension),
		"TestExtensionImage":   TestExtensionImage,
		"BackupFolder":         BackupFolder(g.Config),
		"KubernetesVersion":    kubernetesModule.Version[len("v"):],
		"Authorizers":          g.Config.Authorizers,
	}, nil
}

func (g *Garden) startAPIServer(ctx context.Context) error {
	serving, err := g.CA.Ensure(apiServer, pki.Request{
		CommonName: apiServer,
		DNSNames:   []string{"localhost", apiServer + ".kube-system.svc", apiServer + ".kube-system.svc.cluster.local"},
		IPs:        []string{"127.0.0.1", g.Config.Garden.IP},
	})
	if err != nil {
		return err
	}
	kubeconfig, err := g.kubeconfig(apiServer)
	if err != nil {
		return err
	}

	daemons, err := cgroups(g.Config)
	if err != nil {
		return err
	}
	if _, err := g.Processes.Ensure(ctx, process.Spec{
		Name: apiServer,
		Command: []string{
			filepath.Join(g.Tools, apiServer),
			"--bind-address=" + g.Config.Garden.IP,
			"--secure-port=" + strconv.Itoa(apiServerPort),
			"--etcd-servers=" + g.EtcdServers,
			"--tls-cert-file=" + serving.CertFile,
			"--tls-private-key-file=" + serving.KeyFile,
			"--cluster-identity=" + Identity,
			"--authorization-always-allow-paths=/healthz,/livez,/readyz",
			"--kubeconfig=" + kubeconfig,
			"--authentication-kubeconfig=" + kubeconfig,
			"--authorization-kubeconfig=" + kubeconfig,
			"--feature-gates=LiveControlPlaneMigration=true",
			"--log-format=text",
		},
		Namespaces: g.namespaces(),
		Cgroups:    daemons,
		Files:      []string{kubeconfig, serving.CertFile},
	}); err != nil {
		return err
	}
	waitCtx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return g.Processes.Wait(waitCtx, apiServer,
		g.probe("https://"+g.Config.Garden.IP+":"+strconv.Itoa(apiServerPort)+"/healthz"))
}

func (g *Garden) startControllerManager(ctx context.Context) error {
	kubeconfig, err := g.kubeconfig(controllerManager)
	if err != nil {
		return err
	}
	content, err := apply.Render("controller-manager.yaml", controllerManagerConfig,
		map[string]string{"Kubeconfig": kubeconfig})
	if err != nil {
		return err
	}
	file := g.Config.Dir(g.Config.Garden.Name, controllerManager+".yaml")
	if err := os.WriteFile(file, content, 0o644); err != nil {
		return fmt.Errorf("failed to write configuration of %s: %w", controllerManager, err)
	}
	daemons, err := cgroups(g.Config)
	if err != nil {
		return err
	}
	if _, err := g.Processes.Ensure(ctx, process.Spec{
		Name:       controllerManager,
		Command:    []string{filepath.Join(g.Tools, controllerManager), "--config=" + file},
		Namespaces: g.namespaces(),
		Cgroups:    daemons,
		Files:      []string{file, kubeconfig},
	}); err != nil {
		return err
	}
	waitCtx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return g.Processes.Wait(waitCtx, controllerManager,
		g.probe("http://127.0.0.1:"+strconv.Itoa(healthPort)+"/healthz"))
}

// kubeconfig makes the kubeconfig of one of Gardener's own components, which upstream's charts give all rights, too.
func (g *Garden) kubeconfig(component string) (string, error) {
	identity, err := g.CA.Ensure(component+"-client",
		pki.Request{CommonName: "gardener.cloud:system:" + component, Organizations: []string{"system:masters"}})
	if err != nil {
		return "", err
	}
	file := g.Config.Dir(g.Config.Garden.Name, component+".kubeconfig")
	return file, pki.EnsureKubeconfig(file, g.server(), g.CA, identity)
}

// GardenletKubeconfig makes the kubeconfig with which the gardenlet of a seed talks to the garden, and returns it.
func GardenletKubeconfig(cfg *config.Config, ca *pki.CA, seedName string) ([]byte, error) {
	identity, err := ca.Ensure("gardenlet-"+seedName, pki.Request{
		CommonName:    "gardener.cloud:system:seed:" + seedName,
		Organizations: []string{"gardener.cloud:system:seeds"},
	})
	if err != nil {
		return nil, err
	}
	file := cfg.Dir(seedName, "gardenlet.kubeconfig")
	if err := pki.EnsureKubeconfig(file, "https://"+cfg.Garden.IP+":6443", ca, identity); err != nil {
		return nil, err
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("failed to read kubeconfig %q: %w", file, err)
	}
	return content, nil
}

func (g *Garden) server() string { return "https://" + g.Config.Garden.IP + ":6443" }

func (g *Garden) namespaces() process.Namespaces {
	return process.Namespaces{Net: filepath.Join("/run/netns", g.Config.Garden.Netns)}
}

// cgroups are where the garden's daemons run, beside its etcd and kube-apiserver: outside they would starve when the
// seeds are busy.
func cgroups(cfg *config.Config) ([]string, error) {
	groups, err := machine.DetectCgroups()
	if err != nil {
		return nil, err
	}
	return groups.EnsureLeaf(cfg.Garden.Netns, "daemons")
}

// StartDNS starts the DNS stand-in at the garden's address. It serves the landscape's domain and, because upstream's
// provider-local sends its updates to a compiled-in zone and name server, that zone.
func StartDNS(ctx context.Context, cfg *config.Config, processes *process.Manager, binary string) error {
	address := net.JoinHostPort(cfg.Garden.IP, "53")
	daemons, err := cgroups(cfg)
	if err != nil {
		return err
	}
	manners, err := dnsManners(cfg)
	if err != nil {
		return err
	}
	if _, err := processes.Ensure(ctx, process.Spec{
		Name: "garden-dns",
		Command: append([]string{
			binary,
			"--listen=" + address,
			"--zone=" + config.Domain,
			"--zone=" + providerLocalZone,
			"--state-file=" + cfg.Dir(cfg.Garden.Name, "dns.json"),
			"--change-log=" + DNSChangeLog(cfg),
		}, manners...),
		Namespaces: process.Namespaces{Net: filepath.Join("/run/netns", cfg.Garden.Netns)},
		Cgroups:    daemons,
		Files:      []string{binary},
	}); err != nil {
		return err
	}
	waitCtx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return processes.Wait(waitCtx, "garden-dns", func(ctx context.Context) error {
		question := new(dns.Msg).SetQuestion("ns."+providerLocalZone+".", dns.TypeA)
		answer, _, err := new(dns.Client).ExchangeContext(ctx, question, address)
		if err != nil {
			return err
		}
		if len(answer.Answer) == 0 {
			return fmt.Errorf("no answer for %s", question.Question[0].Name)
		}
		return nil
	})
}

// dnsManners are the flags of the DNS stand-in for the manners that the landscape asks for. The addresses of further
// name servers come into being.
func dnsManners(cfg *config.Config) ([]string, error) {
	var flags []string
	if cfg.DNS.Aliases {
		flags = append(flags, "--aliases")
		for _, seed := range cfg.Seeds {
			flags = append(flags, "--host="+cfg.BalancerName(seed)+"="+seed.LoadBalancerIP)
		}
	}
	for i, server := range cfg.NameServers()[1:] {
		if err := network.EnsureAddress(cfg.Garden.Netns, server); err != nil {
			return nil, err
		}
		// The first of them takes half of the time, and answers always.
		lag, silence := cfg.DNS.Lag/2, time.Duration(0)
		if i == 1 {
			lag, silence = cfg.DNS.Lag, cfg.DNS.Silence
		}
		flags = append(flags, fmt.Sprintf("--replica=%s,%s,%s", server, lag, silence))
	}
	return flags, nil
}

// DNSChangeLog is the file with one line per changed record.
func DNSChangeLog(cfg *config.Config) string { return cfg.Dir("logs", "dns-changes.jsonl") }
