from __future__ import annotations

from gateway.core.learn import Arm, Learner, Sample
from gateway.core.predict import ServerModel


def test_before_the_first_request_the_prior_is_believed() -> None:
    learner = Learner()
    prior = ServerModel("one")
    learner.arm("a", Arm("one", prior=prior))
    learner.arm("b", Arm("two"))
    learner.update(Sample("a", 0.0, {"code": 1.0}))
    assert learner.publish()["a"] == prior
