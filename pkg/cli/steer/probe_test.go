// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package steer_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"

	"github.com/livecpm/livecpm/pkg/cli/steer"
	"github.com/livecpm/livecpm/pkg/migration/conditions"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/migration/summary"
	"github.com/livecpm/livecpm/pkg/proof/probe"
	"github.com/livecpm/livecpm/pkg/proof/recording"
)

var begin = time.Date(2026, 3, 4, 5, 6, 0, 0, time.UTC)

// fakeLoad records what is asked of it.
type fakeLoad struct {
	mu       sync.Mutex
	calls    []string
	startErr error
	stopErr  error
}

func (l *fakeLoad) note(call string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, call)
}

func (l *fakeLoad) Start(context.Context) error { l.note("start"); return l.startErr }
func (l *fakeLoad) Mark(phase probe.Phase)      { l.note("mark " + string(phase)) }
func (l *fakeLoad) Namespace() string           { return "livecpm-probe-x" }
func (l *fakeLoad) Snapshot() probe.Snapshot {
	return probe.Snapshot{Writes: 10, WritesFailed: 1, Reads: 20, WatchEvents: 100, RawConnectionErrors: 2,
		SinceLastWrite: 40 * time.Millisecond, LongestWriteGap: 1200 * time.Millisecond,
		BaselineLongestWriteGap: 300 * time.Millisecond}
}
func (l *fakeLoad) Stop(ctx context.Context) (*probe.Result, error) {
	l.note("stop")
	if ctx.Err() != nil {
		return nil, errors.New("there is no time left to clean up")
	}
	return &probe.Result{Writes: 10}, l.stopErr
}

var _ = Describe("Run", func() {
	var (
		load      *fakeLoad
		clk       *testclock.FakeClock
		out       bytes.Buffer
		shoot     *gardencorev1beta1.Shoot
		looks     int
		looked    func(look int)
		published []summary.Probe
		run       steer.ProbeRun

		// do runs with a clock that continues whenever somebody waits.
		do = func(ctx context.Context) (*probe.Result, error) {
			done, gone := make(chan struct{}), make(chan struct{})
			// The next spec has another clock, which must not be written while this one is still read.
			defer func() { close(done); <-gone }()
			go func() {
				defer close(gone)
				for {
					select {
					case <-done:
						return
					default:
						if clk.HasWaiters() {
							clk.Step(time.Second)
						}
						time.Sleep(time.Millisecond)
					}
				}
			}()
			return run.Do(ctx)
		}
	)

	BeforeEach(func() {
		load, clk, looks, published = &fakeLoad{}, testclock.NewFakeClock(begin), 0, nil
		out.Reset()
		looked = func(int) {}
		shoot = &gardencorev1beta1.Shoot{
			ObjectMeta: metav1.ObjectMeta{Namespace: "garden-demo", Name: "live"},
			Spec:       gardencorev1beta1.ShootSpec{SeedName: new("seed-a")},
			Status:     gardencorev1beta1.ShootStatus{SeedName: new("seed-a")},
		}
		run = steer.ProbeRun{
			Load: load, Clock: clk, Out: &out, Every: 5 * time.Second,
			Shoot: func(context.Context) (*gardencorev1beta1.Shoot, error) {
				looks++
				looked(looks)
				return shoot.DeepCopy(), nil
			},
			Publish: func(counts summary.Probe) error { published = append(published, counts); return nil },
		}
	})

	start := func() {
		shoot.Annotations = map[string]string{steps.AnnotationIntent: "true"}
		shoot.Spec.SeedName = new("seed-b")
		shoot.Status.LiveMigration = &gardencorev1beta1.LiveMigration{Conditions: conditions.Initialize(clk, nil)}
	}
	complete := func() {
		shoot.Annotations, shoot.Status.SeedName = nil, new("seed-b")
		for i := range shoot.Status.LiveMigration.Conditions {
			shoot.Status.LiveMigration.Conditions[i].Status = gardencorev1beta1.ConditionTrue
		}
	}

	It("should end when the duration has passed, and report and publish what it counts meanwhile", func() {
		run.Duration = 12 * time.Second
		result, err := do(context.Background())
		Expect(err).NotTo(HaveOccurred())
		Expect(result.Writes).To(BeNumerically("==", 10))
		Expect(load.calls).To(Equal([]string{"start", "stop"}))
		Expect(out.String()).
			To(ContainSubstring("10 writes (1 failed), 20 reads (0 failed), 100 watch events, 2 connection errors"))
		Expect(out.String()).To(ContainSubstring("namespace livecpm-probe-x"))
		Expect(published).NotTo(BeEmpty())
		Expect(published[0]).To(And(HaveField("Namespace", "livecpm-probe-x"), HaveField("Writes", int64(10)),
			HaveField("ConnectionErrors", int64(2)), HaveField("Started.Time", begin),
			HaveField("LongestWriteGapMs", int64(1200)), HaveField("BaselineLongestWriteGapMs", int64(300)),
			HaveField("SinceLastWriteMs", int64(40))))
	})

	It("should wait for a migration, follow its phases, and continue for a while after it", func() {
		run.UntilComplete, run.After = true, 3*time.Second
		var completedAt time.Time
		looked = func(look int) {
			switch look {
			case 3:
				start()
			case 6:
				complete()
				completedAt = clk.Now()
			}
		}
		_, err := do(context.Background())
		Expect(err).NotTo(HaveOccurred())
		Expect(load.calls).To(Equal([]string{"start", "mark during", "mark after", "stop"}))
		Expect(clk.Now()).To(BeTemporally(">=", completedAt.Add(3*time.Second)))
		Expect(out.String()).To(And(ContainSubstring("a live migration is in flight"),
			ContainSubstring("the live migration has ended: Succeeded")))
	})

	It("should end in an orderly way when it is interrupted", func() {
		ctx, cancel := context.WithCancel(context.Background())
		looked = func(int) { cancel() }
		result, err := do(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(result).NotTo(BeNil())
		Expect(load.calls).To(Equal([]string{"start", "stop"}))
	})

	It("should continue when it can neither publish nor see the shoot, and say so once", func() {
		run.Duration = 5 * time.Second
		run.Publish = func(summary.Probe) error { return errors.New("the disk is full") }
		_, err := do(context.Background())
		Expect(err).NotTo(HaveOccurred())
		Expect(bytes.Count(out.Bytes(), []byte("the disk is full"))).To(Equal(1))
	})

	It("should say which namespace to look after when the end fails", func() {
		run.Duration = time.Second
		load.stopErr = errors.New("away")
		result, err := do(context.Background())
		Expect(result).NotTo(BeNil())
		Expect(err).To(MatchError(And(ContainSubstring("livecpm-probe-x"), ContainSubstring("away"))))
	})

	It("should not begin if the load does not", func() {
		load.startErr = errors.New("forbidden")
		_, err := run.Do(context.Background())
		Expect(err).To(MatchError("failed to start the load: forbidden"))
		Expect(load.calls).To(Equal([]string{"start"}))
	})
})

var _ = Describe("Store", func() {
	var (
		store steer.CountsStore
		shoot = &gardencorev1beta1.Shoot{
			ObjectMeta: metav1.ObjectMeta{Namespace: "garden-demo", Name: "live", UID: types.UID("1")},
		}
		key   = steer.CountsKey("https://garden", shoot)
		probe = summary.Probe{Started: metav1.NewTime(begin), Updated: metav1.NewTime(begin.Add(time.Minute)),
			Writes: 7}
	)

	BeforeEach(func() { store = steer.CountsStore{Folder: filepath.Join(GinkgoT().TempDir(), "probes")} })

	It("should show others on the machine what a probe has counted", func() {
		Expect(store.Read(key, begin)).To(BeNil())
		Expect(store.Write(key, probe)).To(Succeed())
		probe := probe
		probe.Writes = 8
		Expect(store.Write(key, probe)).To(Succeed())
		Expect(store.Read(key, begin.Add(time.Minute))).To(HaveField("Writes", int64(8)))
		Expect(store.Read(steer.CountsKey("https://other", shoot), begin)).To(BeNil())
		files, err := os.ReadDir(store.Folder)
		Expect(err).NotTo(HaveOccurred())
		Expect(files).To(HaveLen(1))

		Expect(store.Remove(key)).To(Succeed())
		Expect(store.Remove(key)).To(Succeed())
		Expect(store.Read(key, begin)).To(BeNil())
	})

	It("should show others on the machine the course of a probe as well", func() {
		Expect(store.ReadSeries(key)).To(BeNil())
		Expect(store.WriteSeries(key, &recording.Series{Begin: begin, IntervalSeconds: 2,
			Points: []recording.Point{{Writes: 7}}})).To(Succeed())
		Expect(store.ReadSeries(key)).To(HaveValue(And(HaveField("IntervalSeconds", 2.0),
			HaveField("Points", HaveLen(1)))))
		Expect(store.Read(key, begin)).To(BeNil(), "it is no count")
		Expect(store.Remove(key)).To(Succeed())
		Expect(os.ReadDir(store.Folder)).To(BeEmpty())
	})

	It("should not take the file of a probe that was killed for one that runs", func() {
		Expect(store.Write(key, probe)).To(Succeed())
		Expect(store.Read(key, begin.Add(time.Hour))).To(BeNil())
	})
})
