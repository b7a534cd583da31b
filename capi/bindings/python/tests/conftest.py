import sys


def pytest_collection_finish(session):
    """transformers asks PyTorch whether a GPU is recording; one without a GPU, whose GPU libraries may be stand-ins, is not."""
    torch = sys.modules.get("torch")
    if torch is not None and not torch.cuda.is_available():
        torch.cuda.is_current_stream_capturing = lambda: False
