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
	"slices"
	"strings"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/standins/loadbalancer"
)

const (
	familyCut     = "cut"
	familyLatency = "rtt"
)

// traffic disturbs what goes from seed to seed for the shoot. Each connection passes one load balancer, that of the
// seed it leads to, so both are made faulty.
type traffic struct {
	fault

	latency time.Duration
	cut     loadbalancer.Cut
}

// trafficSpan is when members in both seeds talk to each other, or are about to.
var trafficSpan = span{
	point{gardencorev1beta1.ShootLiveMigrationDestinationEtcdPeersJoined, Boundary},
	point{gardencorev1beta1.ShootLiveMigrationSourceSeedCleanup, Inside},
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
		faults = append(faults,
			&traffic{fault: fault{name: family + "-" + cut.name, family: family, span: trafficSpan,
				course: Course{Lasts: cut.lasts}}, cut: loadbalancer.CutFreeze})
	}
	return faults
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
			fault: fault{name: fmt.Sprintf("%s-%s", family, roundTrip), family: family, span: trafficSpan,
				course: Course{Lasts: maxLatency, ThroughStep: true}},
			latency: roundTrip / 2, // in each direction
		})
	}
	return faults
}

// Inject implements Fault.
func (f *traffic) Inject(ctx context.Context, targets *Targets) error {
	change := f.change()
	change.SNI = RelayNames(targets.Namespace)
	targets.Log("traffic between the seeds: %s", f.Name())
	return targets.on(sides, func(seed Seed) error {
		balancer := targets.LoadBalancer(seed)
		if err := balancer.Add(ctx, change); err != nil {
			return err
		}
		if err := eventually(ctx, "the load balancer has the fault in force", func(ctx context.Context) (bool, error) {
			return balancer.InForce(ctx, change)
		}); err != nil {
			return err
		}
		targets.Prove("the load balancer of %s has %s in force", seed.Name, f.Name())
		return nil
	})
}

// RelayNames is a pattern for the server names that the relays of a shoot ask for at the other seed's gateway.
func RelayNames(namespace string) string { return "*--" + namespace + ".*" }

// change is what the fault asks of a load balancer, for no connection in particular.
func (f *traffic) change() loadbalancer.Fault {
	return loadbalancer.Fault{Cut: f.cut, Latency: metav1.Duration{Duration: f.latency}}
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
	return a.request(ctx, http.MethodPost, nil, body)
}

func (a admin) Lift(ctx context.Context, change loadbalancer.Fault) error {
	query := url.Values{"to": {a.seed}}
	if change.Latency.Duration != 0 {
		query.Set("latency", change.Latency.Duration.String())
	}
	if change.Cut != "" {
		query.Set("cut", string(change.Cut))
	}
	return a.request(ctx, http.MethodDelete, query, nil)
}

func (a admin) InForce(ctx context.Context, change loadbalancer.Fault) (bool, error) {
	answer, err := a.ask(ctx, http.MethodGet, nil, nil)
	if err != nil {
		return false, err
	}
	var faults []loadbalancer.Fault
	if err := json.Unmarshal(answer, &faults); err != nil {
		return false, fmt.Errorf("failed to decode the faults of the load balancer of %s: %w", a.seed, err)
	}
	return slices.ContainsFunc(faults, func(f loadbalancer.Fault) bool {
		return f.SNI == change.SNI && f.Cut == change.Cut && f.Latency == change.Latency &&
			(len(f.To) == 0 || slices.Contains(f.To, a.seed))
	}), nil
}

// adminClient goes to the landscape directly, whatever proxy the environment names.
var adminClient = &http.Client{Timeout: seedTimeout, Transport: &http.Transport{}}

func (a admin) request(ctx context.Context, method string, query url.Values, body []byte) error {
	_, err := a.ask(ctx, method, query, body)
	return err
}

// ask returns the answer of the admin port.
func (a admin) ask(ctx context.Context, method string, query url.Values, body []byte) ([]byte, error) {
	failed := func(err error) ([]byte, error) {
		verb := "change"
		if method == http.MethodGet {
			verb = "read"
		}
		return nil, fmt.Errorf("failed to %s the faults of the load balancer of %s: %w", verb, a.seed, err)
	}
	target := url.URL{Scheme: "http", Host: a.address, Path: "/faults", RawQuery: query.Encode()}
	request, err := http.NewRequestWithContext(ctx, method, target.String(), bytes.NewReader(body))
	if err != nil {
		return failed(err)
	}
	response, err := adminClient.Do(request)
	if err != nil {
		return failed(err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return failed(err)
	}
	if response.StatusCode != http.StatusOK {
		return failed(fmt.Errorf("%s: %s", response.Status, strings.TrimSpace(string(answer))))
	}
	return answer, nil
}
