// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// defaultDialTimeout is how long the connection to a front may take, if the configuration does not say so.
	defaultDialTimeout = 2 * time.Second
	// answerTimeout is how long a front may take for what it does at once, beyond connecting.
	answerTimeout = 2 * time.Second
	// pingFront is after which time without a word a front is asked whether it is still there.
	pingFront = 10 * time.Second
)

// SteeringConfig says which fronts are steered.
type SteeringConfig struct {
	// Addresses are the ip:port of all pods of the front, those that are about to end included: they still serve.
	Addresses []string
	// ServerName is a name in the fronts' certificate.
	ServerName string
	// TLS has a client certificate of etcd's authority, and trusts that authority.
	TLS *tls.Config
	// DialTimeout is how long the connection to a front may take. Defaults to 2 seconds.
	DialTimeout time.Duration
	// Log tells of holds that could not be released. They end by themselves.
	Log logr.Logger
}

// Steering steers all replicas of a front as one. Only if all of them have done what they are asked for, it is done.
type Steering struct {
	config SteeringConfig
	fronts []steeredFront
	// err says why there is nothing to steer.
	err error
}

type steeredFront struct {
	address string
	conn    *grpc.ClientConn
}

// NewSteering returns a Steering. It connects when it is used first. What is wrong with the configuration is what its
// methods return.
func NewSteering(cfg SteeringConfig) *Steering {
	if cfg.DialTimeout == 0 {
		cfg.DialTimeout = defaultDialTimeout
	}
	s := &Steering{config: cfg}
	switch {
	case len(cfg.Addresses) == 0:
		s.err = errors.New("the front of etcd has no pods, wait until its Deployment has some")
		return s
	case cfg.TLS == nil:
		s.err = errors.New("the front of etcd is reached over mutual TLS only, TLS is missing")
		return s
	}
	identity := cfg.TLS.Clone()
	identity.ServerName = cfg.ServerName
	for _, address := range cfg.Addresses {
		conn, err := grpc.NewClient("passthrough:///"+address,
			grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
				return (&net.Dialer{Timeout: cfg.DialTimeout}).DialContext(ctx, "tcp", address)
			}),
			grpc.WithTransportCredentials(credentials.NewTLS(identity)),
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2,
					MaxDelay: time.Second},
				MinConnectTimeout: cfg.DialTimeout,
			}),
			grpc.WithDisableServiceConfig(),
			// A drain may wait for long, and must notice that the front is gone.
			grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingFront, Timeout: pingFront / 2}),
			grpc.WithDefaultCallOptions(grpc.ForceCodecV2(codec{})))
		if err != nil {
			s.err = fmt.Errorf("failed to prepare the connection to the front at %s: %w", address, err)
			return s
		}
		s.fronts = append(s.fronts, steeredFront{address, conn})
	}
	return s
}

// Hold holds requests at all fronts, for at most the given time from when they are connected. It returns when none is
// under way any more, with at least a quarter of the time left. Unless all fronts come that far, nothing is held, and
// the error names those that do not.
func (s *Steering) Hold(ctx context.Context, atMost time.Duration) (release func(), err error) {
	id := rand.Text()
	// Releasing what is not held yet connects to all fronts, so that their holds begin at one time.
	if err := s.bounded(ctx, "reach the front to hold requests", "Release", &releaseRequest{ID: id}); err != nil {
		return nil, err
	}
	release = sync.OnceFunc(func() { s.release(ctx, id) })
	inTime, cancel := context.WithTimeout(ctx, atMost*3/4)
	defer cancel()
	err = s.all(inTime, "hold requests", "Hold", &holdRequest{ID: id, AtMost: metav1.Duration{Duration: atMost}})
	if err == nil {
		err = inTime.Err()
	}
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// release ends the hold at all fronts, those included that have not answered or have refused it. It takes a bounded
// time also if the context has ended.
func (s *Steering) release(ctx context.Context, id string) {
	err := s.bounded(context.WithoutCancel(ctx), "release requests", "Release", &releaseRequest{ID: id})
	if err != nil {
		s.config.Log.Info("A front of etcd holds requests until their time is over", "reason", err.Error())
	}
}

// Drain drains the member at all fronts and waits until nothing is under way there. If it fails, or the context ends
// before, the member remains drained at those fronts that have taken it. Call it again or Restore.
func (s *Steering) Drain(ctx context.Context, ordinal int, atMost time.Duration) error {
	return s.all(ctx, fmt.Sprintf("drain member %d", ordinal), "Drain",
		&drainRequest{Ordinal: ordinal, AtMost: metav1.Duration{Duration: atMost}})
}

// Restore ends Drain at all fronts.
func (s *Steering) Restore(ctx context.Context, ordinal int) error {
	return s.bounded(ctx, fmt.Sprintf("restore member %d", ordinal), "Restore", &restoreRequest{Ordinal: ordinal})
}

// Close closes the connections to the fronts. What is held or drained remains so for its time.
func (s *Steering) Close() error {
	var errs []error
	for _, front := range s.fronts {
		errs = append(errs, front.conn.Close())
	}
	return errors.Join(errs...)
}

// bounded calls all fronts for what they do at once.
func (s *Steering) bounded(ctx context.Context, what, method string, request steeringMessage) error {
	ctx, cancel := context.WithTimeout(ctx, s.config.DialTimeout+answerTimeout)
	defer cancel()
	return s.all(ctx, what, method, request)
}

// all calls all fronts at once and waits for all of them.
func (s *Steering) all(ctx context.Context, what, method string, request steeringMessage) error {
	if s.err != nil {
		return fmt.Errorf("failed to %s: %w", what, s.err)
	}
	errs := make([]error, len(s.fronts))
	var calls sync.WaitGroup
	for i, front := range s.fronts {
		calls.Go(func() {
			if err := front.conn.Invoke(ctx, "/"+steeringService+"/"+method, request, &done{}); err != nil {
				errs[i] = fmt.Errorf("failed to %s at the front at %s: %w", what, front.address, err)
			}
		})
	}
	calls.Wait()
	return errors.Join(errs...)
}
