def files(described):
    return {}
