"""Processes with certificates: they train as others do, and strangers are refused."""
import subprocess

import numpy as np
import pytest

import ps_job
import rank_job


def make(folder, name, authority=None):
    """A key and a certificate for this machine; signed by itself, or by an authority's."""
    key, signed, request = (str(folder / f'{name}.{end}') for end in ('key', 'pem', 'csr'))
    subject = ['-subj', f'/CN={name}', '-addext', 'subjectAltName=IP:127.0.0.1,DNS:localhost']
    new = ['openssl', 'req', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-keyout', key]
    if authority is None:
        commands = [new + ['-x509', '-days', '2', '-out', signed] + subject]
    else:
        commands = [new + ['-out', request] + subject,
                    ['openssl', 'x509', '-req', '-in', request, '-CA', authority[1], '-CAkey', authority[0],
                     '-CAcreateserial', '-days', '2', '-copy_extensions', 'copy', '-out', signed]]
    for command in commands:
        subprocess.run(command, check=True, capture_output=True, timeout=30)
    return key, signed


@pytest.fixture(scope='module')
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp('tls')
    authority, other = make(folder, 'authority'), make(folder, 'other')

    def flags(name, signed_by, believes):
        key, certificate = make(folder, name, signed_by)
        return {'FLAGS_tls_certificate': certificate, 'FLAGS_tls_key': key, 'FLAGS_tls_authority': believes[1]}
    return {'ours': flags('ours', authority, authority), 'theirs': flags('theirs', other, authority)}


def losses(said):
    return np.mean([each['losses'] for each in said], axis=0)


@pytest.mark.parametrize('mode, ranks', [('sparse', 2), ('hierarchical', 4)])
def test_ranks_exchange_encrypted(files, mode, ranks):
    env = {**files['ours'], 'FLAGS_plaintext': 'refuse'}
    said, alone = rank_job.job(ranks, mode, env=env).said, rank_job.job(1, 'sparse' if mode == 'sparse' else 'compiled').said
    np.testing.assert_allclose(losses(said), losses(alone), rtol=2e-5)
    assert len({str(each['weights']) for each in said}) == 1


def test_two_encrypted_runs_give_the_same_bits(files):
    assert rank_job.job(2, 'compiled', env=files['ours']).said == rank_job.job(2, 'compiled', env=files['ours']).said


def test_a_killed_rank_is_named_over_encrypted_connections_too(files):
    job = rank_job.job(2, 'compiled', env={**files['ours'], 'END_BY': '1,2,kill'})
    assert job.code == 1 and 'rank 1 is lost: its process ended without leaving' in job.logs[0]


def test_a_certificate_of_another_authority_is_refused(files):
    job = rank_job.job(2, 'compiled', env={**files['theirs'], 'FLAGS_rpc_deadline': '2000'})
    assert job.code == 1 and 'certificate' in job.logs[0] and 'have not come' in job.logs[0]


def test_half_of_the_files_are_refused(files):
    env = {name: path for name, path in files['ours'].items() if 'key' not in name}
    job = rank_job.job(2, 'compiled', env=env)
    assert job.code == 1 and 'FLAGS_tls_key is not set' in job.err
    env = {**files['ours'], 'FLAGS_tls_key': '/no/such/file'}
    assert 'FLAGS_tls_key names /no/such/file' in rank_job.job(2, 'compiled', env=env).err


def ps_losses(env):
    servers, trainers = ps_job.job(1, 2, everywhere=env)
    assert [each.code for each in servers] == [0], servers[0].err
    return [each.said['losses'] for each in trainers]


def test_servers_and_trainers_talk_encrypted(files):
    assert ps_losses({**files['ours'], 'FLAGS_plaintext': 'refuse'}) == ps_losses({})


def test_a_trainer_in_plain_text_is_refused(files):
    env = {**files['ours'], 'FLAGS_rpc_deadline': '1500'}
    (server,), (trainer,) = ps_job.job(1, 1, everywhere=env, env={0: dict.fromkeys(env, '')
                                                                  | {'FLAGS_rpc_deadline': '1500'}})
    assert trainer.code == 1 and server.code == 1 and 'have not come' in server.err
