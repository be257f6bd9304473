// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/standins/loadbalancer"
)

const (
	familyCut      = "cut"
	familyCutAgain = "cut-again"
	familyOneWay   = "cut-oneway"
	familyReset    = "reset"
	familyLatency  = "rtt"
	familyLoss     = "loss"
)

// traffic disturbs what goes from seed to seed for the shoot. Each connection passes one load balancer, that of the
// seed it leads to, so both are made faulty.
type traffic struct {
	fault

	latency time.Duration
	cut     loadbalancer.Cut
	// every makes a cut come back: it lasts for lasting then. Zero stands for one that stays.
	every, lasting time.Duration
	// loss is the percentage of packets that are dropped.
	loss int
	// sender is the side whose packets are disturbed, in whichever connection; both sides if it is empty.
	sender steps.Role

	// before is what had been disturbed at each load balancer when the fault was injected.
	before map[string]loadbalancer.Disturbed
}

// trafficSpan is when members in both seeds talk to each other, or are about to.
var trafficSpan = span{
	point{gardencorev1beta1.ShootLiveMigrationDestinationEtcdPeersJoined, Boundary},
	point{gardencorev1beta1.ShootLiveMigrationSourceSeedCleanup, Inside},
}

// prepares is longer than the destination prepares before its members join.
const prepares = 30 * time.Second

// disturbance returns what faults of the traffic have in common. They have nothing to hit when the source has neither
// members nor a kube-apiserver left, nor before members join if they are over by then.
func disturbance(name, family string, course Course) fault {
	joins := gardencorev1beta1.ShootLiveMigrationDestinationEtcdPeersJoined
	idle := []point{{gardencorev1beta1.ShootLiveMigrationSourceSeedCleanup, At(steps.ReasonDeletingSourceResources)}}
	if course.Lasts < prepares {
		idle = append(idle, point{joins, Boundary}, preparingDestination)
	}
	return fault{name: name, family: family, span: trafficSpan, except: idle, course: course}
}

// cuts interrupt the traffic: for less than an election of etcd takes, for longer, and for longer than any request
// waits.
func cuts() []Fault {
	const family = familyCut
	faults := []Fault{}
	for _, cut := range []struct {
		name  string
		lasts time.Duration
	}{{"5s", 5 * time.Second}, {"60s", time.Minute}, {"10m", 10 * time.Minute}} {
		faults = append(faults, &traffic{fault: disturbance(family+"-"+cut.name, family, Course{Lasts: cut.lasts}),
			cut: loadbalancer.CutFreeze})
	}
	return faults
}

// comingBack interrupts the traffic for a moment again and again until the step ends: for less than an election of etcd
// takes, and often enough that no wait of the step is without it.
func comingBack() []Fault {
	return []Fault{&traffic{
		fault: disturbance(familyCutAgain+"-3s", familyCutAgain, Course{Lasts: maxLatency, ThroughStep: true}),
		cut:   loadbalancer.CutFreeze, every: 20 * time.Second, lasting: 3 * time.Second,
	}}
}

// oneWayCuts interrupt what one side sends. The other side's packets arrive, acknowledgements of what it cannot get
// among them.
func oneWayCuts() []Fault {
	faults := []Fault{}
	for _, role := range sides {
		faults = append(faults, &traffic{
			fault: disturbance(familyOneWay+"-"+string(role), familyOneWay, Course{Lasts: time.Minute}),
			cut:   loadbalancer.CutFreeze, sender: role,
		})
	}
	return faults
}

// resets end all connections at once, and refuse new ones for a while.
func resets() []Fault {
	return []Fault{&traffic{fault: disturbance(familyReset+"-5s", familyReset, Course{Lasts: 5 * time.Second}),
		cut: loadbalancer.CutReset}}
}

// losses drop a part of the packets for the rest of the step. What is sent again comes out of order.
func losses() []Fault {
	return []Fault{&traffic{
		fault: disturbance(familyLoss+"-10pct", familyLoss, Course{Lasts: maxLatency, ThroughStep: true}), loss: 10,
	}}
}

// maxLatency bounds how long latency is in force in a step that does not end.
const maxLatency = 20 * time.Minute

// latencies add to the round trip between the seeds for the rest of the step: neighbouring regions, a continent, and
// another one.
func latencies() []Fault {
	const family = familyLatency
	faults := []Fault{}
	for _, milliseconds := range []time.Duration{50, 100, 180} {
		roundTrip := milliseconds * time.Millisecond
		faults = append(faults, &traffic{
			fault: disturbance(fmt.Sprintf("%s-%s", family, roundTrip), family,
				Course{Lasts: maxLatency, ThroughStep: true}),
			latency: roundTrip / 2, // in each direction
		})
	}
	return faults
}

// Inject implements Fault. Whether it hits anything shows later, see Witness.
func (f *traffic) Inject(ctx context.Context, targets *Targets) error {
	targets.Log("traffic between the seeds: %s", f.Name())
	f.before = map[string]loadbalancer.Disturbed{}
	return targets.on(sides, func(seed Seed) error {
		balancer, change := targets.LoadBalancer(seed), f.change()
		change.SNI = RelayNames(targets.Namespace)
		if f.sender != "" {
			// Clients of a seed's load balancer are on the other side.
			change.Direction = loadbalancer.Upstream
			if seed.Name == targets.Seeds[f.sender].Name {
				change.Direction = loadbalancer.Downstream
			}
		}
		var err error
		if f.before[seed.Name], err = balancer.Disturbed(ctx, change.SNI); err != nil {
			return err
		}
		if err := balancer.Add(ctx, change); err != nil {
			return err
		}
		return eventually(ctx, "the load balancer has the fault in force", func(ctx context.Context) (bool, error) {
			return balancer.InForce(ctx, change)
		})
	})
}

// Witness implements Witnessed: what the load balancers dropped, delayed and reset while the fault was in force.
func (f *traffic) Witness(ctx context.Context, targets *Targets) error {
	return targets.on(sides, func(seed Seed) error {
		now, err := targets.LoadBalancer(seed).Disturbed(ctx, RelayNames(targets.Namespace))
		if err != nil {
			return err
		}
		before := f.before[seed.Name]
		for _, met := range []struct {
			what  string
			count uint64
			mine  bool
		}{
			{"dropped %d packets", now.Dropped - before.Dropped, f.cut == loadbalancer.CutFreeze || f.loss > 0},
			{"delayed %d deliveries", now.Delayed - before.Delayed, f.latency > 0},
			{"reset %d connections", now.Reset - before.Reset, f.cut == loadbalancer.CutReset},
		} {
			if met.mine && met.count > 0 {
				targets.Prove("the load balancer of %s "+met.what+" of the relays", seed.Name, met.count)
			}
		}
		return nil
	})
}

// RelayNames is a pattern for the server names that the relays of a shoot ask for at the other seed's gateway.
func RelayNames(namespace string) string { return "*--" + namespace + ".*" }

// change is what the fault asks of a load balancer, for no connection in particular.
func (f *traffic) change() loadbalancer.Fault {
	return loadbalancer.Fault{Cut: f.cut, Latency: metav1.Duration{Duration: f.latency}, Loss: f.loss,
		Every: metav1.Duration{Duration: f.every}, For: metav1.Duration{Duration: f.lasting}}
}

// Heal implements Fault. It leaves other faults of the traffic in force.
func (f *traffic) Heal(ctx context.Context, targets *Targets) error {
	var errs []error
	for _, role := range sides {
		if seed, ok := targets.Seeds[role]; ok {
			errs = append(errs, targets.LoadBalancer(seed).Lift(ctx, f.change()))
		}
	}
	return errors.Join(errs...)
}

// admin implements LoadBalancer by the admin port of the landscape's load balancers.
type admin struct {
	address, seed string
}

// LoadBalancerOf returns the load balancer in front of a seed of the landscape.
func LoadBalancerOf(landscape *config.Config, seed string) LoadBalancer {
	return admin{address: landscape.LoadBalancerAdmin(), seed: seed}
}

func (a admin) Add(ctx context.Context, change loadbalancer.Fault) error {
	change.To = []string{a.seed}
	body, err := json.Marshal(change)
	if err != nil {
		return fmt.Errorf("failed to encode fault of the load balancer: %w", err)
	}
	return a.change(ctx, http.MethodPost, nil, body)
}

func (a admin) Lift(ctx context.Context, change loadbalancer.Fault) error {
	query := url.Values{"to": {a.seed}}
	if change.Latency.Duration != 0 {
		query.Set("latency", change.Latency.Duration.String())
	}
	if change.Cut != "" {
		query.Set("cut", string(change.Cut))
	}
	if change.Loss != 0 {
		query.Set("loss", strconv.Itoa(change.Loss))
	}
	return a.change(ctx, http.MethodDelete, query, nil)
}

func (a admin) Disturbed(ctx context.Context, sni string) (loadbalancer.Disturbed, error) {
	var sum loadbalancer.Disturbed
	answer, err := a.get(ctx, "/status")
	if err != nil {
		return sum, err
	}
	var statuses []loadbalancer.Status
	if err := json.Unmarshal(answer, &statuses); err != nil {
		return sum, fmt.Errorf("failed to decode the status of the load balancer of %s: %w", a.seed, err)
	}
	for _, status := range statuses {
		for _, disturbed := range status.Disturbed {
			if matches, err := path.Match(strings.ToLower(sni), disturbed.ServerName); err != nil || !matches ||
				status.Seed != a.seed {
				continue
			}
			sum.Dropped += disturbed.Dropped
			sum.Delayed += disturbed.Delayed
			sum.Reset += disturbed.Reset
		}
	}
	return sum, nil
}

func (a admin) InForce(ctx context.Context, change loadbalancer.Fault) (bool, error) {
	answer, err := a.get(ctx, pathFaults)
	if err != nil {
		return false, err
	}
	var faults []loadbalancer.Fault
	if err := json.Unmarshal(answer, &faults); err != nil {
		return false, fmt.Errorf("failed to decode the faults of the load balancer of %s: %w", a.seed, err)
	}
	return slices.ContainsFunc(faults, func(f loadbalancer.Fault) bool {
		return f.SNI == change.SNI && f.Direction == change.Direction && f.Cut == change.Cut &&
			f.Latency == change.Latency && f.Loss == change.Loss && f.Every == change.Every && f.For == change.For &&
			(len(f.To) == 0 || slices.Contains(f.To, a.seed))
	}), nil
}

// adminClient goes to the landscape directly, whatever proxy the environment names. It keeps no connection: a load
// balancer that has started again would not know it, and nobody repeats a POST.
var adminClient = &http.Client{Timeout: seedTimeout, Transport: &http.Transport{DisableKeepAlives: true}}

// pathFaults is where the admin port takes faults.
const pathFaults = "/faults"

func (a admin) get(ctx context.Context, path string) ([]byte, error) {
	answer, err := a.ask(ctx, http.MethodGet, &url.URL{Path: path}, nil)
	if err != nil {
		return nil, fmt.Errorf("failed to read %s of the load balancer of %s: %w", path, a.seed, err)
	}
	return answer, nil
}

func (a admin) change(ctx context.Context, method string, query url.Values, body []byte) error {
	if _, err := a.ask(ctx, method, &url.URL{Path: pathFaults, RawQuery: query.Encode()}, body); err != nil {
		return fmt.Errorf("failed to change the faults of the load balancer of %s: %w", a.seed, err)
	}
	return nil
}

// ask returns the answer of the admin port.
func (a admin) ask(ctx context.Context, method string, target *url.URL, body []byte) ([]byte, error) {
	target.Scheme, target.Host = "http", a.address
	request, err := http.NewRequestWithContext(ctx, method, target.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	response, err := adminClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", response.Status, strings.TrimSpace(string(answer)))
	}
	return answer, nil
}
