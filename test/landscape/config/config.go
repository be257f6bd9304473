// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package config says where the landscape lives: its folders, its addresses and its names. Everything else in the
// landscape takes them from here, so that a second landscape can run beside the first one.
package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

const (
	// EnvState names the environment variable with the folder of all state and logs.
	EnvState = "LIVECPM_STATE"
	// EnvCache names the environment variable with the folder of what is built once.
	EnvCache = "LIVECPM_CACHE"
	// EnvPrefix names the environment variable with the prefix of every name the landscape gives to the machine.
	EnvPrefix = "LIVECPM_PREFIX"
	// EnvNetwork names the environment variable with the first three octets of the landscape's /24.
	EnvNetwork = "LIVECPM_NETWORK"
	// EnvDrainBudget names the environment variable with the number of control planes that a drain lets leave one seed,
	// and enter one, at the same time.
	EnvDrainBudget = "LIVECPM_DRAIN_BUDGET"
	// EnvAuthorizers names the environment variable that reports whether Gardener's SeedAuthorizer and SeedRestriction
	// are in front of the garden: on, which is the default, or off.
	EnvAuthorizers = "LIVECPM_AUTHORIZERS"

	// EnvGardenlet names the environment variable with the gardenlet that the seeds run: composed, upstream or drop-in.
	// Without it, it is the one of the landscape that is up, and composed if none is.
	EnvGardenlet = "LIVECPM_GARDENLET"

	// EnvTLSTermination names the environment variable that says where TLS of shoots' clients ends: on for the ingress
	// gateways, as by default in Gardener, off for the kube-apiservers. Without it, it is as in the landscape that is
	// up, and on if none is.
	EnvTLSTermination = "LIVECPM_TLS_TERMINATION"

	// EnvShoot names the environment variable with the name of the shoot that the landscape gets: live, workers, single
	// or single-workers. Without it, it is the one of the landscape that is up, and live if none is.
	EnvShoot = "LIVECPM_SHOOT"
	// ShootLive is the name of the shoot without workers.
	ShootLive = "live"
	// ShootWorkers is the name of the shoot with workers.
	ShootWorkers = "workers"
	// ShootSingle is the name of the shoot whose control plane is not highly available, and which has no workers.
	ShootSingle = "single"
	// ShootSingleWorkers is the name of the shoot whose control plane is not highly available, and which has workers.
	ShootSingleWorkers = "single-workers"

	// EnvAudit names the environment variable that lets the API servers write down who asks for what: on, or off, which
	// is the default.
	EnvAudit = "LIVECPM_AUDIT"

	// defaultDrainBudget is that of livecpm-controller-manager, processorsPerMigration what a migration needs to be
	// live.
	defaultDrainBudget     = 2
	processorsPerMigration = 2

	// ClientMachine is the name by which the load balancers know connections of the machine itself.
	ClientMachine = "machine"

	// loadBalancerAdminPort is where the hub serves the faults of the load balancers.
	loadBalancerAdminPort = "8001"

	// Domain is the parent of every zone that the landscape's DNS server serves.
	Domain = "livecpm.example"
	// InternalDomain is the garden's internal domain.
	InternalDomain = "internal." + Domain
	// ShootDomain is the garden's default domain for shoots.
	ShootDomain = "shoots." + Domain
)

// Gardenlet says which program the gardenlets of the seeds are.
type Gardenlet string

const (
	// GardenletComposed is put together of upstream's reconcilers, without the one that sets up the seed: the landscape
	// does that, with the components that its shoots need.
	GardenletComposed Gardenlet = "composed"
	// GardenletUpstream is upstream's program as it is. It sets up the seed with everything that a seed has.
	GardenletUpstream Gardenlet = "upstream"
	// GardenletDropIn is upstream's command with the agent in its process. It sets up the seed like upstream's.
	GardenletDropIn Gardenlet = "drop-in"
)

// gardenlets are all of them.
var gardenlets = []Gardenlet{GardenletComposed, GardenletUpstream, GardenletDropIn}

// SetsUpSeed reports whether the gardenlet deploys the components of the seed itself.
func (g Gardenlet) SetsUpSeed() bool { return g != GardenletComposed }

// Config describes one landscape.
type Config struct {
	// Prefix starts the name of every network namespace, interface and cgroup of this landscape.
	Prefix string
	// Repo is the root of the repository.
	Repo string
	// State is the folder of everything this landscape writes.
	State string
	// Cache is the folder of what is built once and shared by all landscapes.
	Cache string
	// HostIP is the machine's own address in the landscape's network.
	HostIP string
	// HubIP is the address of the hub, which answers traffic to nowhere with "unreachable".
	HubIP string
	// Garden is the garden cluster.
	Garden Garden
	// Seeds are the seed clusters.
	Seeds []Seed
	// DrainBudget is how many control planes a drain lets leave one seed, and enter one, at the same time.
	DrainBudget int
	// Authorizers reports whether Gardener's SeedAuthorizer and SeedRestriction are in front of the garden. Without
	// them gardenlets are its administrators, and the agents' permissions are in roles that know no seeds.
	Authorizers bool
	// Audit reports whether the API servers of garden and seeds write down who asks for what.
	Audit bool
	// Gardenlet is the gardenlet of all seeds.
	Gardenlet Gardenlet
	// TLSTermination reports whether the ingress gateways end the TLS of shoots' clients, Gardener's feature gate
	// IstioTLSTermination. Otherwise they pass it through to the kube-apiservers.
	TLSTermination bool
	// MemberPrefix reports whether Etcds that are new in a seed have the prefix that Gardener gives the names of their
	// members (EnvMemberPrefix).
	MemberPrefix bool
	// Shoot is the name of the shoot that the landscape gets.
	Shoot string
	// Tolerance is what the landscape's own shoot tolerates.
	Tolerance Tolerance
	// DNS is how the DNS provider behaves, Waits which waits gardenlets and agents have.
	DNS   DNS
	Waits Waits
	// Policies says how the seeds enforce NetworkPolicies.
	Policies Policies
	// Etcd says how the members of shoots' etcds stop.
	Etcd EtcdStop
	// Load says how much load is put on a shoot that moves.
	Load Load
}

// HasWorkers reports whether the landscape's shoot has workers. Then the seeds need more programs.
func (c *Config) HasWorkers() bool { return WithWorkers(c.Shoot) }

// WithWorkers reports whether the shoot with the name, one of Shoots, has workers.
func WithWorkers(shoot string) bool { return shoot == ShootWorkers || shoot == ShootSingleWorkers }

// HasOneMember reports whether each etcd of the landscape's shoot has one member.
func (c *Config) HasOneMember() bool { return c.Shoot == ShootSingle || c.Shoot == ShootSingleWorkers }

// Shoots are the names that EnvShoot may have.
func Shoots() []string { return []string{ShootLive, ShootWorkers, ShootSingle, ShootSingleWorkers} }

// Cloud is the seed in which provider-local keeps machines, for shoots in any seed. In the field that is where a cloud
// is: apart from all seeds. Here it is the only one with nodes that there are.
func (c *Config) Cloud() Seed { return c.Seeds[0] }

// Garden describes the garden cluster, which has a control plane but no node.
type Garden struct {
	// Name is the folder below the state folder.
	Name string
	// Netns is the name of the network namespace.
	Netns string
	// IP is the address of kube-apiserver, gardener-apiserver and the DNS server.
	IP string
	// ServiceCIDR is the range of cluster IPs; nothing routes it.
	ServiceCIDR string
}

// Seed describes one seed: a complete cluster with one node, which shares its namespaces with the control plane, or
// with several, each in namespaces of its own.
type Seed struct {
	// Name is the name of the seed and of its folder below the state folder.
	Name string
	// Netns is the name of the network namespace of the control plane.
	Netns string
	// IP is the address of the kube-apiserver.
	IP string
	// Nodes are the nodes of the cluster.
	Nodes []Node
	// NodeCIDR is the range of the addresses of the nodes.
	NodeCIDR string
	// LoadBalancerIP is the public address of the Service istio-ingress/istio-ingressgateway. The hub has it.
	LoadBalancerIP string
	// PodCIDR and ServiceCIDR are the seed's own ranges.
	PodCIDR, ServiceCIDR string
	// DNSIP is the cluster IP of the seed's cluster DNS.
	DNSIP string
	// Region labels the nodes.
	Region string
	// Zones are those of the nodes, each once.
	Zones []string
	// IngressDomain is the seed's ingress domain.
	IngressDomain string
	// Index is the number of the seed, from 1.
	Index int
}

var prefixPattern = regexp.MustCompile(`^[a-z][a-z0-9]{0,9}$`)

// FromEnvironment returns the configuration that the environment asks for.
func FromEnvironment() (*Config, error) {
	repo, err := findRepo()
	if err != nil {
		return nil, err
	}
	state := os.Getenv(EnvState)
	if state == "" {
		state = filepath.Join(repo, ".landscape")
	}
	cache := os.Getenv(EnvCache)
	if cache == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("failed to find the cache folder, set %s: %w", EnvCache, err)
		}
		cache = filepath.Join(base, "livecpm")
	}
	prefix, network := cmp.Or(os.Getenv(EnvPrefix), "livecpm"), cmp.Or(os.Getenv(EnvNetwork), "10.250.0")
	if state, err = filepath.Abs(state); err != nil {
		return nil, fmt.Errorf("failed to resolve the state folder: %w", err)
	}
	if cache, err = filepath.Abs(cache); err != nil {
		return nil, fmt.Errorf("failed to resolve the cache folder: %w", err)
	}
	out, err := New(Place{Prefix: prefix, Network: network, Repo: repo, State: state, Cache: cache})
	if err != nil {
		return nil, err
	}
	if out.DrainBudget, err = drainBudget(os.Getenv(EnvDrainBudget), runtime.NumCPU()); err != nil {
		return nil, err
	}
	if out.Authorizers, err = onOff(EnvAuthorizers, "on"); err != nil {
		return nil, err
	}
	if out.Audit, err = onOff(EnvAudit, "off"); err != nil {
		return nil, err
	}
	if out.Etcd, err = etcdStop(); err != nil {
		return nil, err
	}
	if out.Policies, err = policies(); err != nil {
		return nil, err
	}
	if out.Load, err = load(); err != nil {
		return nil, err
	}
	if out.Gardenlet, err = out.gardenlet(os.Getenv(EnvGardenlet)); err != nil {
		return nil, err
	}
	if out.TLSTermination, err = out.tlsTermination(); err != nil {
		return nil, err
	}
	if out.Shoot, err = out.shoot(os.Getenv(EnvShoot)); err != nil {
		return nil, err
	}
	if err := out.readNodes(os.Getenv(EnvNodes), os.Getenv(EnvTolerance)); err != nil {
		return nil, err
	}
	return out, errors.Join(out.readManners(), out.readMemberPrefix())
}

// shoot reads the value of EnvShoot.
func (c *Config) shoot(value string) (string, error) {
	if value == "" {
		content, err := os.ReadFile(c.shootRecord())
		if errors.Is(err, fs.ErrNotExist) {
			return ShootLive, nil
		}
		if err != nil {
			return "", fmt.Errorf("failed to read which shoot the landscape has: %w", err)
		}
		value = string(content)
	}
	if !slices.Contains(Shoots(), value) {
		return "", fmt.Errorf("%s is %q; give one of %s", EnvShoot, value, strings.Join(Shoots(), ", "))
	}
	return value, nil
}

// RecordShoot keeps which shoot the landscape has until it is taken down.
func (c *Config) RecordShoot() error {
	if err := os.WriteFile(c.shootRecord(), []byte(c.Shoot), 0o644); err != nil {
		return fmt.Errorf("failed to record the landscape's shoot: %w", err)
	}
	return nil
}

func (c *Config) shootRecord() string { return c.Dir("shoot-variant") }

// gardenlet reads the value of EnvGardenlet.
func (c *Config) gardenlet(value string) (Gardenlet, error) {
	if value == "" {
		recorded, err := c.recordedGardenlet()
		if recorded == "" {
			return GardenletComposed, err
		}
		value = string(recorded)
	}
	if !slices.Contains(gardenlets, Gardenlet(value)) {
		return "", fmt.Errorf("%s is %q; give one of %q", EnvGardenlet, value, gardenlets)
	}
	return Gardenlet(value), nil
}

// RecordGardenlet keeps which gardenlet the seeds of the landscape run until the landscape is taken down. It is an
// error if they run another one: what that one has deployed would stay in the seeds.
func (c *Config) RecordGardenlet() error {
	recorded, err := c.recordedGardenlet()
	if err != nil || recorded == c.Gardenlet {
		return err
	}
	if recorded != "" {
		return fmt.Errorf("the landscape is up with the gardenlet %q, not %q: take it down first (make "+
			"landscape-down), or leave %s unset", recorded, c.Gardenlet, EnvGardenlet)
	}
	if err := os.WriteFile(c.gardenletRecord(), []byte(c.Gardenlet), 0o644); err != nil {
		return fmt.Errorf("failed to record the landscape's gardenlet: %w", err)
	}
	return nil
}

func (c *Config) recordedGardenlet() (Gardenlet, error) {
	content, err := readRecord(c.gardenletRecord(), "which gardenlet the landscape has")
	return Gardenlet(content), err
}

// readRecord returns what a landscape that is up has recorded in the file, and nothing if none is up.
func readRecord(file, what string) (string, error) {
	content, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("failed to read %s: %w", what, err)
	}
	return string(content), nil
}

func (c *Config) gardenletRecord() string { return c.Dir("gardenlet-variant") }

// onOff reads a variable that switches something on or off; unset has the default.
func onOff(variable, unset string) (bool, error) {
	switch value := cmp.Or(os.Getenv(variable), unset); value {
	case "on":
		return true, nil
	case "off":
		return false, nil
	default:
		return false, fmt.Errorf("%s is %q; give on or off", variable, value)
	}
}

// drainBudget returns the default of livecpm-controller-manager where there are processors for it. Two migrations at
// once are eighteen etcd members and twelve kube-apiservers on one machine: two processors cannot do that and answer in
// time.
func drainBudget(value string, processors int) (int, error) {
	if value == "" {
		if processors < processorsPerMigration*defaultDrainBudget {
			return 1, nil
		}
		return defaultDrainBudget, nil
	}
	budget, err := strconv.Atoi(value)
	if err != nil || budget < 1 {
		return 0, fmt.Errorf("%s is %q, not a number of migrations; give 1 or more", EnvDrainBudget, value)
	}
	return budget, nil
}

// Place is where a landscape lives on the machine.
type Place struct {
	// Prefix starts every name that the landscape gives to the machine.
	Prefix string
	// Network is the first three octets of the landscape's /24.
	Network string
	// Repo, State and Cache are the folders of the repository, of what the landscape writes, and of what is built once.
	Repo, State, Cache string
}

// New returns the configuration of a landscape in the given place.
func New(place Place) (*Config, error) {
	prefix, network := place.Prefix, place.Network
	if !prefixPattern.MatchString(prefix) {
		return nil, fmt.Errorf("prefix %q is not a lower-case word of at most 10 letters and digits", prefix)
	}
	if _, err := netip.ParseAddr(network + ".1"); err != nil {
		return nil, fmt.Errorf("network %q is not the first three octets of an IPv4 /24: %w", network, err)
	}
	c := &Config{
		Prefix:      prefix,
		Repo:        place.Repo,
		State:       place.State,
		Cache:       place.Cache,
		HostIP:      network + ".1",
		HubIP:       network + ".254",
		DrainBudget: defaultDrainBudget,
		Authorizers: true,
		Gardenlet:   GardenletComposed,
		Shoot:       ShootLive,
		Waits:       WaitsShort,
		Policies:    PoliciesOn,
		Etcd:        EtcdShipped,
		Load:        LoadNormal,

		TLSTermination: true,
		MemberPrefix:   true,
		Garden: Garden{Name: "garden", Netns: prefix + "-garden", IP: network + ".10",
			ServiceCIDR: "10.96.0.0/16"},
	}
	for i, name := range []string{"seed-a", "seed-b"} {
		n := i + 1
		c.Seeds = append(c.Seeds, Seed{
			Name:           name,
			Netns:          prefix + "-" + name,
			IP:             fmt.Sprintf("%s.1%d", network, n),
			LoadBalancerIP: fmt.Sprintf("%s.2%d", network, n),
			PodCIDR:        fmt.Sprintf("10.24%d.0.0/16", n),
			ServiceCIDR:    fmt.Sprintf("10.%d.0.0/16", 96+n),
			DNSIP:          fmt.Sprintf("10.%d.0.10", 96+n),
			Region:         "region-" + name[len("seed-"):],
			IngressDomain:  "ingress." + name + "." + Domain,
			Index:          n,
		})
	}
	return c, c.SetNodes(1, ToleranceNode)
}

// Seed returns the seed with the given name.
func (c *Config) Seed(name string) (Seed, error) {
	for _, seed := range c.Seeds {
		if seed.Name == name {
			return seed, nil
		}
	}
	return Seed{}, fmt.Errorf("the landscape has no seed %q", name)
}

// Dir returns a path below the state folder.
func (c *Config) Dir(elem ...string) string {
	return filepath.Join(append([]string{c.State}, elem...)...)
}

// Kubeconfig returns the path of the administrator's kubeconfig of the garden or of a seed.
func (c *Config) Kubeconfig(cluster string) string { return c.Dir(cluster, "kubeconfig") }

// PKI returns the folder of certificates and keys of the garden or of a seed.
func (c *Config) PKI(cluster string) string { return c.Dir(cluster, "pki") }

// Bin returns the folder of the project's own binaries.
func (c *Config) Bin() string { return c.Dir("bin") }

// Images returns the folder of image tarballs.
func (c *Config) Images() string { return c.Dir("images") }

// ClientsCgroup is the cgroup that programs join which put load on the landscape or observe it.
func (c *Config) ClientsCgroup() string { return c.Prefix + "-clients" }

// HostInterface is the name of the machine's own interface in the landscape's network.
func (c *Config) HostInterface() string { return c.Prefix + "0" }

// HubNetns is the network namespace that holds the bridge between all parts of the landscape.
func (c *Config) HubNetns() string { return c.Prefix + "-hub" }

// LoadBalancerAdmin is where the load balancers in front of the seeds serve their status and their faults.
func (c *Config) LoadBalancerAdmin() string { return net.JoinHostPort(c.HubIP, loadBalancerAdminPort) }

// Netns lists every network namespace of the landscape.
func (c *Config) Netns() []string {
	names := []string{c.HubNetns(), c.Garden.Netns}
	for _, seed := range c.Seeds {
		names = append(names, seed.Netns)
		if seed.Apart() {
			for _, node := range seed.Nodes {
				names = append(names, node.Netns)
			}
		}
	}
	return names
}

// findRepo walks up from the working directory to the module's root, so that the landscape can be driven from any
// package's tests as well as from the repository's root.
func findRepo() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("failed to read the working directory: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "hack", "build-tools.sh")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "",
				fmt.Errorf("failed to find the repository: no hack/build-tools.sh in or above the working directory")
		}
		dir = parent
	}
}
