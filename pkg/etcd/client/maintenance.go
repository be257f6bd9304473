// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// AlarmNoSpace is raised by a member whose database file has reached the quota. All members refuse writes from then
	// on, until the alarm is disarmed.
	AlarmNoSpace = "NOSPACE"
	// AlarmCorrupt is raised when the data of a member differs from that of the others. All members refuse to serve
	// data.
	AlarmCorrupt = "CORRUPT"

	// metricDefragmenting is a gauge that is 1 on a member for as long as it copies its database. etcd tells it nowhere
	// else: the status has no field for it, and a member that defragments answers for its status as before.
	metricDefragmenting = "etcd_disk_defrag_inflight"
	// maxMetrics bounds what is read of a member's metrics.
	maxMetrics = 16 << 20
)

// ErrNoMetric says that a member does not publish the metric that was looked for, and never will: its etcd has other
// metrics only, or serves nothing but gRPC to its clients. It is an answer. A member whose metrics could not be read
// gives another error.
var ErrNoMetric = errors.New("the member does not publish the metric")

// Alarm is raised by one member and known to all of them.
type Alarm struct {
	// MemberID is the member that raised it.
	MemberID uint64
	// Type is AlarmNoSpace, AlarmCorrupt, or one that a later etcd knows.
	Type string
}

func (r *reader) Alarms(ctx context.Context) ([]Alarm, error) {
	var out []Alarm
	err := r.onService(ctx, "list the etcd alarms", func(ctx context.Context, client *clientv3.Client) error {
		response, err := client.AlarmList(ctx)
		if err != nil {
			return err
		}
		out = nil
		for _, alarm := range response.Alarms {
			out = append(out, Alarm{MemberID: alarm.GetMemberID(), Type: alarm.GetAlarm().String()})
		}
		return nil
	})
	return out, err
}

func (r *reader) Defragmenting(ctx context.Context, member Member) (bool, error) {
	endpoint, err := r.locator.Member(ctx, member)
	if err != nil {
		return false, fmt.Errorf("failed to locate etcd member %s: %w", member, err)
	}
	value, err := r.metric(ctx, endpoint, metricDefragmenting)
	if err != nil {
		return false, fmt.Errorf("failed to read %s of etcd member %s at %s: %w", metricDefragmenting, member,
			endpoint.Address, err)
	}
	return value > 0, nil
}

// metric reads one metric without labels. etcd publishes its metrics where it serves clients. If it is told to listen
// for HTTP elsewhere (--listen-client-http-urls), it serves gRPC alone there, and says so in HTTP/2.
func (r *reader) metric(ctx context.Context, endpoint Endpoint, name string) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()

	tlsConfig := r.tls.Clone()
	tlsConfig.ServerName = endpoint.ServerName
	transport := &http.Transport{
		TLSClientConfig: tlsConfig,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return r.dial(ctx, "tcp", endpoint.Address)
		},
		ForceAttemptHTTP2: true,
		DisableKeepAlives: true,
	}
	defer transport.CloseIdleConnections()

	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url(endpoint)+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	if servesGRPCAlone(response) {
		return 0, fmt.Errorf("%w: it serves nothing but gRPC there", ErrNoMetric)
	}
	if response.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("the answer is %s", response.Status)
	}
	return findMetric(response.Body, name)
}

// servesGRPCAlone reports whether the answer is that of a gRPC server to a question that is not gRPC.
func servesGRPCAlone(response *http.Response) bool {
	return response.StatusCode == http.StatusUnsupportedMediaType && response.Header.Get("grpc-status") != ""
}

// findMetric returns ErrNoMetric only if it has seen all metrics of an etcd.
func findMetric(metrics io.Reader, name string) (float64, error) {
	var (
		limited = &io.LimitedReader{R: metrics, N: maxMetrics}
		scanner = bufio.NewScanner(limited)
		ofEtcd  = false
	)
	for scanner.Scan() {
		if value, found := strings.CutPrefix(scanner.Text(), name+" "); found {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
		ofEtcd = ofEtcd || strings.HasPrefix(scanner.Text(), "etcd_")
	}
	switch err := scanner.Err(); {
	case err != nil:
		return 0, err
	case limited.N <= 0:
		return 0, fmt.Errorf("the answer is longer than %d bytes", maxMetrics)
	case !ofEtcd:
		return 0, errors.New("the answer has no metric of etcd")
	}
	return 0, ErrNoMetric
}
